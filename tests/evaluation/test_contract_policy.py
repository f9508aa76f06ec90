"""Policies of any program in the simulation, through their contracts."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from configs.go2_flat import flat_task
from deploy.onnx_policy import Policy
from rsl_rl.cli.main import main
from rsl_rl.config.mdp import CommandLimitConfig, ObservationGroupConfig, ObservationTerm
from rsl_rl.contracts.contract import contract_json, contract_of, plain_mapping, write_contract
from rsl_rl.evaluation.conditions import for_evaluation
from rsl_rl.evaluation.contract_policy import ContractPolicy, for_contract

SCALES = {"base_lin_vel": 2.0, "base_ang_vel": 0.25, "gravity": 1.0, "command": 2.0, "joint_pos": 1.0,
          "joint_vel": 0.05, "action": 1.0}  # fmt: skip


def task(**changes):
    """The Go2 without a gait clock."""
    cfg = flat_task()
    terms = {name: ObservationTerm(scale=scale, history=2 if name == "action" else 1) for name, scale in SCALES.items()}
    rewards = {name: term for name, term in cfg.rewards.terms.items() if name != "foot_timing"}
    commands = replace(cfg.commands, terms={}, limit=CommandLimitConfig())
    own = replace(
        cfg, commands=commands, rewards=replace(cfg.rewards, terms=rewards), num_envs=3,
        observations={"policy": ObservationGroupConfig(terms)},
    )  # fmt: skip
    return replace(own, **changes)


def describe(env, **changes):
    """The contract of a policy of a task, as plain values."""
    interface = env.describe_interface(["policy"])
    sizes = {"inputs": {"obs": [1, 60]}, "outputs": {"actions": [1, 12]}}
    return contract_json(contract_of({**plain_mapping(12), **interface, **sizes, "format": 2, **changes}))


def act(obs):
    """Actions [N, 12] that depend on each number of the observation [N, 60]."""
    weights = np.sin(np.arange(12 * 60, dtype=np.float32)).reshape(60, 12)
    return np.tanh(obs @ weights)


def test_policy_through_its_contract_moves_the_robots_as_in_its_own_task():
    cfg = for_evaluation(task(), 3, 10.0)
    own = cfg.build(seed=5)
    description = describe(own)
    order = [*reversed(description["joint_names"])]  # nothing depends on the order of the joints
    for field in ("default_joint_pos", "stiffness", "damping", "torque_limits", "joint_limits", "target_limits"):
        description[field] = description[field][::-1]
    description["joint_names"] = order

    def network(obs):
        parts = np.split(obs.numpy(), (12, 24, 36, 48), axis=1)
        straight = np.concatenate([parts[0], *(part[:, ::-1] for part in parts[1:])], axis=1)
        return torch.from_numpy(act(straight)[:, ::-1].copy())

    env = for_contract(cfg, description).build(seed=5)
    robots = ContractPolicy(description, network, lambda marked: None, env.sim.joint_names)
    obs, raw = own.reset(), env.reset()
    limits = own.target_limits.unbind(dim=1)
    for _ in range(40):
        obs, _, done, _ = own.step(torch.from_numpy(act(obs["policy"].numpy())))
        raw, _, again, _ = env.step(robots(raw))
        robots.reset(again)
        assert torch.equal(done, again)
        torch.testing.assert_close(env.joint_targets, own.joint_targets.clamp(*limits), atol=1e-3, rtol=0)
    torch.testing.assert_close(env.sim.root_pos, own.sim.root_pos, atol=1e-3, rtol=0)


def test_task_of_a_contract_has_its_rate_gains_torques_delay_and_commands():
    description = describe(task().build())
    description.update(
        control_period=0.03, default_joint_pos=[0.0, 0.6, -1.2] * 4, stiffness=[40.0] * 12, damping=[2.0] * 12,
        torque_limits=[15.0] * 12,
        action_delay=[0.01, 0.02], command_ranges=[[0.0, 0.7], [0.0, 0.0], [-0.2, 0.2]], action_scale=[0.5] * 12,
    )  # fmt: skip
    env = for_contract(task(), description).build(seed=0)
    assert env.cfg.sim.control_dt == pytest.approx(0.03) and env.cfg.sim.dt <= 0.005
    assert env.sim.torque_limits.tolist() == [15.0] * 12 and env.actuator.delay_steps == (2, 4)
    assert env.commands.sources["velocity"].ranges == ((0.0, 0.7), (0.0, 0.0), (-0.2, 0.2))
    assert env.state.default_joint_pos.tolist() == pytest.approx([0.0, 0.6, -1.2] * 4)
    assert env.context.per_joint("stiffness").tolist() == [40.0] * 12 and env.action_scale.tolist() == [0.5] * 12


def test_contract_of_other_joints_is_refused():
    description = describe(task().build())
    description["joint_names"] = [*description["joint_names"][:-1], "tail"]
    with pytest.raises(ValueError, match="joint_names: the robot go2 has no tail"):
        for_contract(task(), description)


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 1000),
    by_step=st.booleans(),
    dead_zone=st.sampled_from((None, 0.0, 0.7)),
    limits=st.sampled_from(({}, {"velocity": {"max_lin_acc": 2.0, "max_yaw_acc": 0.0}})),
    clips=st.booleans(),
)
def test_contract_policy_gives_the_targets_of_the_runner_on_a_robot(seed, by_step, dead_zone, limits, clips):
    rng = np.random.default_rng(seed)
    joints, order = ["a", "b", "c"], ["c", "a", "b"]
    sizes = {**dict.fromkeys(("base_lin_vel", "base_ang_vel", "gravity", "command"), 3), "gait_clock": 2,
             "joint_pos": 3, "joint_vel": 3, "action": 3}  # fmt: skip
    terms = [
        {
            "name": name, "size": size, "history": 3 if by_step or name == "action" else 1 + size % 2,
            "scale": rng.uniform(0.5, 2.0, size).tolist() if name == "command" else float(rng.uniform(0.1, 2.0)),
            "frame": "joint" if name in ("joint_pos", "joint_vel", "action") else "base",
            "clip": [-0.5, 0.6] if clips else None,
        }
        for name, size in sizes.items()
    ]  # fmt: skip
    total = sum(term["size"] * term["history"] for term in terms)
    contract = contract_json(
        contract_of(
            {
                **plain_mapping(3), "format": 2, "inputs": {"obs": [1, total]}, "outputs": {"actions": [1, 3]},
                "control_period": 0.02, "observations": terms, "joint_names": order,
                "default_joint_pos": rng.normal(size=3).tolist(), "action_scale": [0.2, 0.5, 1.0],
                "action_clip": 0.9 if clips else None, "stiffness": [20.0] * 3, "damping": [1.0] * 3,
                "torque_limits": [30.0] * 3, "observation_clip": 1.0 if clips else None,
                "history_order": "step" if by_step else "term", "command_ranges": [[-0.6, 0.8]] * 3,
                "commands": {**limits, "gait_clock": {"period": 0.3, "dead_zone": dead_zone}},
                "target_limits": [[-1.0, 1.0]] * 3 if clips else None,
            }
        )
    )  # fmt: skip
    weights = rng.normal(size=(total, 3)).astype(np.float32) / total

    def network(obs):
        return torch.tanh(obs @ torch.from_numpy(weights))

    default = [contract["default_joint_pos"][order.index(name)] for name in joints]  # of the task's joints
    batch = ContractPolicy(contract, network, lambda marked: None, joints)
    single = [Policy(contract, lambda obs: [network(torch.from_numpy(obs)).numpy()], joints) for _ in range(2)]
    scale = torch.tensor([0.5, 1.0, 0.2])  # of the task's joints
    for step in range(6):
        readings = torch.from_numpy(rng.normal(size=(2, 18)).astype(np.float32))
        readings[:, 6:9] /= readings[:, 6:9].norm(dim=1, keepdim=True)
        targets = batch({"policy": readings}) * scale + torch.tensor(default)
        for robot, row in enumerate(readings.numpy()):
            own = single[robot](
                base_lin_vel=row[:3], base_ang_vel=row[3:6], base_quat=upright(row[6:9]), command=row[9:12],
                joint_pos=row[12:15] + np.float32(default), joint_vel=row[15:],
            )  # fmt: skip
            np.testing.assert_allclose(targets[robot].numpy(), own, atol=1e-5)
        if step == 3:
            single[1].reset()
            batch.reset(torch.tensor([False, True]))


def upright(gravity):
    """An orientation, w x y z, in which gravity has a direction in the base frame."""
    up = -gravity.astype(np.float64)
    quat = np.array((1.0 + up[2], up[1], -up[0], 0.0))
    return quat / np.linalg.norm(quat)


class Remembering(torch.nn.Module):
    """A policy that keeps its memory, as legged_gym exports it: one action counts the steps of the episode."""

    def __init__(self):
        super().__init__()
        self.register_buffer("hidden_state", torch.zeros(1, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.hidden_state[:] = self.hidden_state + 1.0
        return 0.01 * self.hidden_state[0].expand(x.shape[0], 12) + 0.0 * x[:, :12]

    @torch.jit.export
    def reset_memory(self):
        self.hidden_state[:] = 0.0


@pytest.fixture(scope="module")
def policy_file(tmp_path_factory):
    """A TorchScript policy with its contract beside it."""
    folder = tmp_path_factory.mktemp("policy")
    torch.jit.script(Remembering()).save(str(folder / "walk.pt"))
    write_contract(contract_of(describe(task().build())), folder / "walk.json")
    return folder / "walk.pt"


def test_each_robot_has_a_memory_of_its_own(policy_file):
    from rsl_rl.cli.policy_files import load_policy_files

    (file,) = load_policy_files([str(policy_file)], [], [], task()).values()
    env = for_evaluation(file.task, 2, 5.0).build(seed=0)
    obs = env.reset()
    first = [file.acting(obs) for _ in range(3)]
    assert first[-1][0, 0] == pytest.approx(0.03, abs=1e-5)
    file.acting.reset(torch.tensor([True, False]))
    assert file.acting(obs)[:, 0].tolist() == pytest.approx([0.01, 0.04], abs=1e-5)


def test_evaluate_compares_policies_of_any_program_in_one_report(quick_commands, policy_file, tmp_path, capsys):
    other = tmp_path / "other.pt"
    other.write_bytes(policy_file.read_bytes())
    report = tmp_path / "report.html"
    words = ["evaluate", "--robot", "go2", "--num_envs", "2", "--seconds", "0.4", "--report", str(report)]
    policies = ["--policy", str(policy_file), str(other), "--contract", str(policy_file.with_suffix(".json"))]
    assert main([*words, *policies, "--disturbance", "none", "slippery"]) == 0
    out = capsys.readouterr().out
    results = json.loads(out.splitlines()[-1])["checkpoints"]
    own, theirs = str(policy_file), str(other)
    assert [result["checkpoint"] for result in results] == [own, own, theirs, theirs]
    assert results[0]["lin_vel_error"] == results[2]["lin_vel_error"] > 0 and report.is_file()


@pytest.mark.slow
def test_evaluate_of_a_policy_that_stands_still_under_a_joystick_counts_failures(policy_file, capsys):
    words = ["evaluate", "--robot", "go2", "--num_envs", "2", "--seconds", "0.4", "--report", "none"]
    assert main([*words, "--policy", str(policy_file), "--joystick", "--robot_hours", "1e-3"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["failures_per_hour"] > 0


def test_play_films_a_policy_of_any_program(policy_file, tmp_path, capsys):
    for name in ("walk.pt", "walk.json"):
        (tmp_path / name).write_bytes((policy_file.parent / name).read_bytes())
    words = ["play", "--policy", str(tmp_path / "walk.pt"), "--robot", "go2", "--num_envs", "1", "--seconds", "0.1"]
    assert main([*words, "--command", "0.5", "0", "0", "--no_video"]) == 0
    assert "playing" in capsys.readouterr().out and (tmp_path / "play.png").is_file()
    assert main([*words, "--no_video", "--no_plot", "--folder", str(tmp_path / "films" / "new")]) == 0
    assert (tmp_path / "films" / "new").is_dir()
    assert main([*words, "--follow", "--export", "c"]) == 2
    assert "--policy is shown without a run; leave out --follow, --export" in capsys.readouterr().err
    assert main([*words, "--page", str(tmp_path / "walk.html")]) == 2
    assert "--page needs an export of the task go2_flat" in capsys.readouterr().err
    assert main([*words, "--viewer", "--folder", "films"]) == 2
    assert "--viewer writes no file; leave out --folder" in capsys.readouterr().err


def test_policy_that_reads_what_no_robot_senses_acts_in_its_own_task(tmp_path):
    from rsl_rl.cli.policy_files import load_policy_files

    cfg, network = task(), torch.nn.Linear(61, 12)
    terms = {**cfg.observations["policy"].terms, "base_height": ObservationTerm(scale=5.0)}
    own = replace(cfg, observations={"policy": ObservationGroupConfig(terms)})
    torch.jit.script(network).save(str(tmp_path / "walk.pt"))
    write_contract(contract_of(describe(own.build(), inputs={"obs": [1, 61]})), tmp_path / "walk.json")
    (file,) = load_policy_files([str(tmp_path / "walk.pt")], [], [], own).values()
    assert file.task.observations == own.observations
    obs = for_evaluation(file.task, 2, 5.0).build(seed=0).reset()
    with torch.no_grad():
        torch.testing.assert_close(file.acting(obs), network(obs["policy"]))
    file.acting.reset(torch.tensor([True, False]))
    with pytest.raises(ValueError, match="no robot senses base_height"):
        load_policy_files([str(tmp_path / "walk.pt")], [], [], cfg)


@pytest.mark.parametrize(
    ("changes", "words", "message"),
    [
        ({"stiffness": [1.0]}, [], "stiffness has 1 values"),
        ({"inputs": {"obs": [1, 61]}}, [], "inputs: obs is"),
        (
            {"observations": [{"name": "gravity", "size": 3, "frame": "base"}], "inputs": {"obs": [1, 3]}},
            [],
            "the network does not take",
        ),
        ({}, ["--set", "joint_names=[1]"], "joint_names"),
        ({}, ["--contract", "none.json"], "no file none.json"),
        ({}, ["--load_run", "x"], "leave out --load_run"),
        ({}, ["--curriculum"], "--curriculum: robots do not move between levels here"),
        ({"network_sha256": "0" * 64}, [], "walk.json describes another network"),
        ({"observations": [{"name": "friction", "size": 60}]}, [], "no robot senses friction"),
    ],
)
def test_evaluate_of_a_policy_that_does_not_fit_is_one_line(changes, words, message, policy_file, tmp_path, capsys):
    content = {**json.loads(policy_file.with_suffix(".json").read_text()), "nominal_observation": None, **changes}
    (tmp_path / "walk.json").write_text(json.dumps(content))
    (tmp_path / "walk.pt").write_bytes(policy_file.read_bytes())
    assert main(["evaluate", "--policy", str(tmp_path / "walk.pt"), "--robot", "go2", *words]) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1


class Failing(torch.nn.Module):
    """A network that does something else from its third call on."""

    def __init__(self, kind: str):
        super().__init__()
        self.kind = kind
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        if float(self.calls) < 3.0:
            return torch.zeros(x.shape[0], 12)
        if self.kind == "error":
            assert x.shape[0] < 0, "a cable is loose"
        if self.kind == "complex":
            return torch.zeros(x.shape[0], 12, dtype=torch.complex64)
        return torch.zeros(1, 12)


@pytest.mark.parametrize(
    ("kind", "message"),
    [("error", "a cable is loose"), ("complex", "torch.complex64"), ("one robot", "the network gives [1, 12]")],
)
def test_network_that_fails_in_an_evaluation_is_one_line(kind, message, policy_file, tmp_path, capsys):
    (tmp_path / "walk.json").write_bytes(policy_file.with_suffix(".json").read_bytes())
    torch.jit.script(Failing(kind)).save(str(tmp_path / "walk.pt"))
    words = ["--policy", str(tmp_path / "walk.pt"), "--robot", "go2", "--num_envs", "2", "--seconds", "0.2"]
    assert main(["evaluate", *words]) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1


def test_flags_of_a_policy_need_one(capsys):
    assert main(["evaluate", "--policy", "walk.pt"]) == 2
    assert "add --robot go2, --robot FILE.xml, or --task" in capsys.readouterr().err
    assert main(["evaluate", "--policy", "walk.pt", "--robot", "nobody"]) == 2
    assert "nobody_flat" in capsys.readouterr().err


def test_recurrent_onnx_network_remembers_each_robot(tmp_path):
    pytest.importorskip("onnxruntime")
    from rsl_rl.cli.policy_files import load_network
    from rsl_rl.config.policy import ActorCriticRecurrentConfig
    from rsl_rl.evaluation.export_parity import open_onnx_network
    from rsl_rl.exporters.onnx import export_onnx

    nets = {"actor_hidden_dims": (8,), "critic_hidden_dims": (8,), "rnn_type": "gru", "rnn_hidden_size": 4}
    path = export_onnx(ActorCriticRecurrentConfig(**nets).build(60, 60, 12), tmp_path / "walk.onnx", {})
    sizes = {"inputs": {"obs": [1, 60], "h_in": [1, 1, 4]}}
    contract = contract_of({**describe(task().build()), **sizes, "memory": "inputs"})
    network, alone = load_network(path, contract), open_onnx_network(path)
    obs = torch.randn(2, 60, generator=torch.Generator().manual_seed(0))
    state = np.zeros((1, 1, 4), np.float32)
    for _ in range(3):
        together = network(obs)
        actions, state = alone(obs[1:].numpy(), state)
    np.testing.assert_allclose(together[1:].numpy(), actions, atol=1e-6)
    network.reset(torch.tensor([False, True]))
    fresh = alone(obs[1:].numpy(), np.zeros((1, 1, 4), np.float32))[0]
    np.testing.assert_allclose(network(obs)[1:].numpy(), fresh, atol=1e-6)
    assert np.abs(fresh - actions).max() > 1e-4
