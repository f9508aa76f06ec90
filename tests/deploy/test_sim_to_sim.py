"""An exported policy in plain MuJoCo, in a process that knows neither torch nor this package."""

import importlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import uuid
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import mujoco
import numpy as np
import pytest
import torch

from configs import EXPERIMENTS
from configs.go2_flat import flat_task
from configs.train_config import TrainConfig
from rsl_rl.config.mdp import RandomizationConfig
from rsl_rl.config.policy import ActorCriticConfig, ActorCriticRecurrentConfig
from rsl_rl.config.sim import DCMotorConfig
from rsl_rl.evaluation.conditions import for_evaluation
from rsl_rl.evaluation.evaluate import evaluate
from rsl_rl.exporters import describe_module, policy_module
from rsl_rl.runners import OnPolicyRunner
from rsl_rl.runners.loading import load_policy
from rsl_rl.utils.config_io import from_dict, read_yaml

pytest.importorskip("onnxruntime")

GATE = ("fall_rate", "lin_vel_error", "yaw_rate_error")
BLOCKED = """
import runpy, sys
for name in {names}:
    sys.modules[name] = None  # importing it fails
sys.path.insert(0, {folder!r})
sys.argv = {argv}
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def run_without(names, script, *arguments):
    """Run a script in a process that cannot import these packages."""
    argv = [str(script), *map(str, arguments)]
    code = BLOCKED.format(names=tuple(names), folder=str(Path(script).parent), argv=argv)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)


def evaluated(cfg, policy, num_envs, seconds):
    """The gate's numbers of robots that are all the model as it stands, and their commands, one every 10 s."""
    env = for_evaluation(replace(cfg, randomization=RandomizationConfig.none()), num_envs, seconds).build(seed=5)
    env.commands.sources["gait_clock"]._random = lambda: torch.zeros(num_envs, 1)  # as on a robot, which starts at 0
    followed = []
    env.observers.append(lambda state, done: followed.append(state.requested_command.clone()))
    result = evaluate(env, policy, seconds)
    return result, torch.stack(followed[:: round(10.0 / cfg.sim.control_dt)], dim=1).tolist()


@pytest.fixture(scope="module", params=["mlp", "gru"])
def exported(request, tmp_path_factory):
    """A runner with a policy that has hardly learned, and its ONNX file."""
    torch.manual_seed(0)
    nets = {"actor_hidden_dims": (16, 8), "critic_hidden_dims": (8,), "actor_obs_normalization": True}
    policies = {"mlp": ActorCriticConfig(**nets), "gru": ActorCriticRecurrentConfig(rnn_hidden_size=8, **nets)}
    task = replace(flat_task(), num_envs=8)
    runner = OnPolicyRunner(task.build(seed=1), TrainConfig(task="go2_flat", policy=policies[request.param], env=task))
    runner.learn(2)
    content = {
        **describe_module(policy_module(runner.alg.policy)),
        **runner.env.describe_interface(["policy"]),
    }
    return runner, runner.export_policy_to_onnx(tmp_path_factory.mktemp("exported"), metadata=content)


def test_plain_mujoco_gives_the_same_numbers_as_the_package(exported, root, tmp_path):
    runner, path = exported
    expected, commands = evaluated(runner.env.cfg, runner.get_inference_policy(), 4, 0.5)
    (tmp_path / "commands.json").write_text(json.dumps(commands))
    arguments = (path, "--seconds", 0.5, "--commands", tmp_path / "commands.json")
    done = run_without(("torch", "rsl_rl"), root / "deploy" / "sim_to_sim.py", *arguments)
    assert done.returncode == 0 and not done.stderr, done.stderr
    result = json.loads(done.stdout)
    assert result["robots"] == 4 and result["lin_vel_error"] > 0.01
    for name in GATE:
        assert result[name] == pytest.approx(expected[name], rel=1e-2, abs=1e-9), name  # contacts magnify rounding


def test_each_robot_starts_anew(exported, root, tmp_path):
    """The same command twice gives the same numbers as once."""
    results = []
    for robots in (1, 2):
        (tmp_path / "commands.json").write_text(json.dumps([[[0.5, 0.2, 0.3]]] * robots))
        flags = ("--seconds", 0.5, "--commands", tmp_path / "commands.json")
        done = run_without(("torch", "rsl_rl"), root / "deploy" / "sim_to_sim.py", exported[1], *flags)
        results.append([json.loads(done.stdout)[name] for name in GATE])
    assert results[0] == pytest.approx(results[1], rel=1e-12)


@pytest.fixture
def script(root, monkeypatch):
    """The script as a module."""
    monkeypatch.syspath_prepend(str(root / "deploy"))
    for name in ("sim_to_sim", "onnx_policy"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module("sim_to_sim")
    sys.modules.pop("sim_to_sim"), sys.modules.pop("onnx_policy")


def test_dc_motors_are_simulated_as_in_the_package(script, monkeypatch):
    """One robot, with motors that saturate."""
    motors = DCMotorConfig(stall_torque=4.0, no_load_speed={".*_calf_joint": 3.0, ".*_(hip|thigh)_joint": 2.0})
    task = replace(flat_task(), num_envs=1, randomization=RandomizationConfig.none())
    env = replace(task, control=replace(task.control, actuator=motors)).build()
    sensed = env.get_observations()["policy"].shape[1]
    description = {**env.describe_interface(["policy"]), "inputs": {"obs": [1, sensed]}}
    actions = iter(np.random.default_rng(0).normal(size=(20, 1, 12)).astype(np.float32))
    monkeypatch.setattr(script, "open_onnx", lambda path: (description, lambda obs: [next(actions)]))
    walker = script.Walker(mujoco, "policy.onnx")
    walker.set_body(0.8, 0.0)
    walker.reset()
    start = torch.from_numpy(np.concatenate((walker.data.qpos, walker.data.qvel, walker.data.qacc_warmstart)))
    env.sim.set_physics_state(torch.nn.functional.pad(start, (0, env.sim.physics_state().shape[1] - len(start)))[None])
    for action in np.random.default_rng(0).normal(size=(20, 12)).astype(np.float32):
        walker.step((0.0, 0.0, 0.0))
        env.actuator.step(env.state.default_joint_pos + 0.25 * torch.from_numpy(action)[None])
    np.testing.assert_allclose(walker.data.qpos[7:], env.sim.joint_pos[0], atol=1e-3)
    assert np.abs(walker.data.actuator_force).max() > 2.0


def test_actuator_that_the_script_cannot_simulate_is_refused(script):
    with pytest.raises(ValueError, match="actuator is 'network'; this script simulates pd and dc_motor"):
        script.dc_motor({"actuator": {"type": "network"}}, ())


def test_the_friction_asked_for_is_that_of_every_contact(exported, script):
    walker = script.Walker(mujoco, exported[1])
    walker.set_body(friction=0.3, payload=0.0)
    walker.reset()
    for _ in range(10):
        walker.step([0.0, 0.0, 0.0])
    assert walker.data.ncon >= 2 and (walker.data.contact.friction[:, :2] == 0.3).all()


def test_simulation_that_diverges_is_a_fall_and_a_failure(exported, root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = ("--robots", 1, "--seconds", 1, "--payload", 1e200, 1e200)
    done = run_without(("torch", "rsl_rl"), root / "deploy" / "sim_to_sim.py", exported[1], *flags)
    result = json.loads(done.stdout)
    assert done.returncode == 1 and result["fall_rate"] >= result["diverged"] > 0
    assert done.stderr == f"sim_to_sim.py: the simulation diverged {result['diverged']} times\n"
    assert all(np.isfinite(result[name]) for name in GATE) and not list(tmp_path.iterdir())


def test_walk_in_a_simulation_that_diverges_at_once_counts_a_fall(exported, script, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # for MuJoCo's log
    walker = script.Walker(mujoco, exported[1], height=1e30)
    falls, *errors = script.walk(walker, itertools.repeat(np.zeros(3)), 3)
    assert falls == walker.counts["diverged"] == 3 and errors == [0.0, 0.0]


def test_policy_that_stops_is_a_fall(exported, script):
    walker = script.Walker(mujoco, exported[1])
    walker.policy._input_limits = {"joint_vel": np.float32(1e-3)}  # the robot stands in the first step only
    falls, *errors = script.walk(walker, itertools.repeat(np.zeros(3)), 16)
    calls = 1 + walker.policy.counts["held_calls"] // 2  # before each stop
    assert falls == walker.counts["stopped"] == 16 // (calls + 1) == 2 and np.isfinite(errors).all()


def test_commands_beyond_the_training_are_counted(exported, root, tmp_path):
    (tmp_path / "commands.json").write_text("[[[9.0, 0.0, 0.0]]]")
    flags = ("--seconds", 0.1, "--commands", tmp_path / "commands.json")
    done = run_without(("torch", "rsl_rl"), root / "deploy" / "sim_to_sim.py", exported[1], *flags)
    assert (json.loads(done.stdout)["clipped_commands"], done.returncode) == (5, 0)


OWN_ROBOT = """
from dataclasses import replace
from pathlib import Path

from rsl_rl.robots.go2 import GO2

ROBOT = replace(GO2, model_path=Path(__file__).parent / "dog.xml", standing_height=0.36)
"""


@pytest.mark.parametrize("robot", ["h1", "own"])
def test_a_robot_other_than_the_go2_walks_with_its_own_model_height_and_contacts(robot, root, tmp_path, monkeypatch):
    if robot == "own":
        model = (root / "rsl_rl/robots/go2/go2.xml").read_text()
        (tmp_path / "dog.xml").write_text(model.replace('name="trunk_contact"', 'name="base_contact"'))
        (tmp_path / "own_dog.py").write_text(OWN_ROBOT)
        monkeypatch.syspath_prepend(str(tmp_path))
        base = flat_task()
        links = replace(base.terminations, contact_links=("base", "head"), contact_force=2.0)
        terms = base.rewards.with_params("collision", collision_links=("base",))
        task = replace(base, robot="own_dog:ROBOT", terminations=links, rewards=terms)
    else:
        task = EXPERIMENTS.load("h1_flat")().env
    env = replace(task, num_envs=2).build(seed=1)
    policy = ActorCriticConfig(actor_hidden_dims=(8,), critic_hidden_dims=(8,))
    runner = OnPolicyRunner(env, TrainConfig(policy=policy, env=env.cfg))
    content = {**describe_module(policy_module(runner.alg.policy)), **env.describe_interface(["policy"])}
    path = runner.export_policy_to_onnx(tmp_path / "exported", metadata=content)
    flags = ("--robots", 1, "--seconds", 0.2)
    done = run_without(("torch", "rsl_rl"), root / "deploy" / "sim_to_sim.py", path, *flags)
    assert done.returncode == 0, done.stderr
    if robot == "own":
        assert content["simulation"] == {
            "model": str(tmp_path.resolve() / "dog.xml"), "standing_height": 0.36,
            "contact_links": ("base", "head"), "contact_force": 2.0, "max_tilt": 1.0,
        }  # fmt: skip
        (tmp_path / "dog.xml").rename(tmp_path / "moved.xml")
        done = run_without(("torch", "rsl_rl"), root / "deploy" / "sim_to_sim.py", path, *flags)
        assert done.returncode == 2 and done.stderr.endswith(
            "dog.xml is not on this machine; give its MJCF file with --model\n"
        )
        flags = (*flags, "--model", tmp_path / "moved.xml")
        assert run_without(("torch",), root / "deploy" / "sim_to_sim.py", path, *flags).returncode == 0
        sys.modules.pop("own_dog")


def test_falls_are_those_of_the_policys_task(script):
    links = {**script.GO2, "contact_links": ["FL_calf"]}
    own = {name: script.GO2[name] for name in ("model", "standing_height")}  # all terminations of one's own
    assert script.read_simulation({}) == script.GO2
    assert script.read_simulation({"simulation": links}) == links
    assert script.read_simulation({"simulation": own})["contact_links"] == []
    for wrong in (None, {}, {**links, "model": 3}, {**links, "max_tilt": "1"}, {**links, "contact_links": [1]}):
        with pytest.raises(ValueError, match=r"of the policy is not as play\.py writes it"):
            script.read_simulation({"simulation": wrong})


@pytest.mark.parametrize(
    "actuator", [{"type": "dc_motor"}, {"type": "dc_motor", "stall_torque": [1.0], "no_load_speed": ["fast"]}]
)
def test_motors_without_their_numbers_are_refused(script, actuator):
    with pytest.raises(ValueError, match="give stall_torque and no_load_speed of each joint"):
        script.dc_motor({"actuator": actuator, "joint_names": ["knee"]}, ["knee"])


def test_a_robot_that_fell_is_given_its_next_command(script):
    followed = []

    class Walker:
        """One that falls in its second and in its fifth step."""

        policy = SimpleNamespace(control_period=5.0)  # two steps to a command
        num_steps = 0

        def reset(self):
            followed.append("start")

        def step(self, command):
            followed.append(command[0])
            self.num_steps += 1

        def velocities(self):
            return np.zeros(3), self.num_steps in (2, 5)

    commands = itertools.cycle(np.array([[1.0, 0, 0], [2.0, 0, 0], [3.0, 0, 0]]))
    falls, lin_vel_error, _ = script.walk(Walker(), commands, 6)
    assert followed == ["start", 1, 1, "start", 2, 2, 3, "start", 1]
    assert falls == 2 and lin_vel_error == pytest.approx((1 + 1 + 2 + 2 + 3 + 1) / 6)
    drawn = script.draw_commands([[-1, 1], [2, 3], [0, 0]], seed=0)
    first, second = np.array([next(drawn) for _ in range(50)]), next(drawn)
    assert (first != second).any(axis=1).all() and (first.min(axis=0) >= (-1, 2, 0)).all()
    assert (first.max(axis=0) <= (1, 3, 0)).all() and np.ptp(first[:, 0]) > 1.5


def test_what_is_missing_is_one_line(root, tmp_path):
    script = root / "deploy" / "sim_to_sim.py"
    done = run_without(("torch", "rsl_rl"), script, tmp_path / "none.onnx")
    assert done.returncode == 2 and done.stderr.startswith("sim_to_sim.py: error: no file")
    assert len(done.stderr.splitlines()) == 1
    (tmp_path / "policy.onnx").touch()
    for name in ("mujoco", "onnxruntime"):
        done = run_without((name,), script, tmp_path / "policy.onnx")
        expected = f"sim_to_sim.py: error: {name} is not installed; run: pip install {name}\n"
        assert (done.returncode, done.stderr) == (2, expected)
    done = run_without(("torch", "rsl_rl"), script, tmp_path / "policy.onnx")  # an empty file
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and "policy.onnx" in done.stderr


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--robots", 0), "--robots 0 and --seconds 20.0: give positive numbers"),
        (("--payload", -9, 0), "--payload -9 takes off the trunk's 6.921 kg; give more"),
        (("--friction", "nan", "nan"), "--friction nan nan: give two finite numbers"),
        (("--friction", 2, 1), "--friction 2 1: give two finite numbers, none negative, the lower one first"),
        (("--friction", -1, 1), "--friction -1 1: give two finite numbers"),
        (("--gains", 1, "inf"), "--gains 1 inf: give two finite numbers"),
        (("--payload", 1, 0), "--payload 1 0: give two finite numbers, the lower one first"),
        (("--seconds", "nan"), "--robots 32 and --seconds nan: give positive numbers"),
        (("--height", "nan"), "--height nan: give a height from 0 to 10 m"),
        (("--height", "1e30"), "--height 1e+30: give a height from 0 to 10 m"),
        (("--seed", -1), "--seed -1"),
        (("--commands", "COMMANDS"), "--commands has the shape (1, 2); give [robots, 2, 3]"),
        (("--model", "none.xml"), "none.xml is not a file; give the MJCF file of the robot"),
        (("--model", "/dev/null"), "/dev/null is not a file; give the MJCF file of the robot"),
        (("--commands", "/dev/zero"), "--commands /dev/zero is not a file"),
        (
            ("--model", "OTHER"),
            "other.xml has no sensor trunk_contact, whose contact is a fall; give the policy's --model",
        ),
    ],
)
def test_a_wrong_flag_is_one_line(flags, message, root, exported, tmp_path):
    (tmp_path / "commands.json").write_text("[[0, 0]]")
    own = (root / "rsl_rl/robots/go2/go2.xml").read_text()
    (tmp_path / "other.xml").write_text(own.replace('name="trunk_contact"', 'name="contact"'))
    files = {"COMMANDS": tmp_path / "commands.json", "OTHER": tmp_path / "other.xml"}
    flags = [files.get(flag, flag) for flag in flags]
    done = run_without(("torch", "rsl_rl"), root / "deploy" / "sim_to_sim.py", exported[1], *flags)
    assert done.returncode == 2 and message in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


@pytest.mark.slow
def test_a_trained_go2_walks_in_an_interpreter_without_torch_as_it_does_here(run_script, root, tmp_path):
    """Numbers of the gate within 10 %: the same robots and commands, and robots that differ as those of evaluate.py."""
    experiment = f"deploy-{uuid.uuid4().hex[:8]}"
    arguments = ("--task", "go2_flat", "--experiment_name", experiment)
    python = tmp_path / "venv" / "bin" / "python"
    try:
        subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
        packages = ("-c", str(root / "constraints.txt"), "numpy", "onnxruntime", "mujoco")
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *packages], check=True)
        assert subprocess.run([str(python), "-c", "import torch"], capture_output=True, check=False).returncode == 1
        done = run_script("scripts/train.py", *arguments, timeout=2400)
        assert done.returncode == 0, done.stderr
        done = run_script("scripts/play.py", *arguments, "--no-video", "--seconds", "1", timeout=600)
        assert done.returncode == 0, done.stdout + done.stderr
        (run,) = (root / "logs" / experiment).iterdir()
        path = run / "exported" / "policy.onnx"

        def walk(*flags):
            command = [str(python), str(root / "deploy" / "sim_to_sim.py"), str(path), *map(str, flags)]
            elsewhere = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
            done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, env=elsewhere)
            return json.loads(done.stdout)

        cfg = from_dict(EXPERIMENTS.load("go2_flat"), read_yaml(run / "config.yaml"))
        loaded = load_policy(cfg, replace(cfg.env, num_envs=1).build(), run)
        expected, commands = evaluated(cfg.env, loaded.policy, 32, 20.0)
        (tmp_path / "commands.json").write_text(json.dumps(commands))
        agree(walk("--commands", tmp_path / "commands.json"), expected, cfg.env.gate)

        varied = cfg.env.randomization.terms["model_parameters"].params
        flags = (
            "--friction",
            *varied["friction"],
            "--payload",
            *varied["payload"],
            "--gains",
            *varied["stiffness_scale"],
        )
        expected = evaluate(for_evaluation(cfg.env, 256, 20.0).build(seed=5), loaded.policy, 20.0)
        agree(walk("--robots", 256, *flags), expected, cfg.env.gate)
    finally:
        shutil.rmtree(root / "logs" / experiment, ignore_errors=True)


def agree(result, expected, gate):
    """Both pass the gate, with errors within 10 % of each other; falls are too rare for a percentage.

    One policy fell 1, 0, 3, 1, 2 and 0 times with 256 robots of six seeds, 0.0046 per robot; the package counted 0.0065
    over six seeds of its own, up to 0.012 in one.
    """
    for name in GATE:
        print(f"{name}: {result[name]:.4f} in plain MuJoCo, {expected[name]:.4f} in the package")
    for name in GATE[1:]:
        assert result[name] <= gate[name]
        assert result[name] == pytest.approx(expected[name], rel=0.1)
    assert abs(result["fall_rate"] - expected["fall_rate"]) <= 0.015  # more than any two of these seeds differ
