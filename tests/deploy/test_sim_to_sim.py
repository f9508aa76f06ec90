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
    policy = importlib.import_module("onnx_policy").Policy
    names = description["joint_names"]
    monkeypatch.setattr(script, "OnnxPolicy", lambda *_: policy(description, lambda obs: [next(actions)], names))
    walker = script.Walker(mujoco, script.MODEL, "", 0.32)
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
    walker = script.Walker(mujoco, script.MODEL, exported[1], height=0.32)
    walker.set_body(friction=0.3, payload=0.0)
    walker.reset()
    for _ in range(10):
        walker.step([0.0, 0.0, 0.0])
    assert walker.data.ncon >= 2 and (walker.data.contact.friction[:, :2] == 0.3).all()


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
        (("--height", "nan"), "--height nan: give a seed from 0 and a positive height"),
        (("--seed", -1), "--seed -1"),
        (("--commands", "COMMANDS"), "--commands has the shape (1, 2); give [robots, 2, 3]"),
        (("--model", "none.xml"), "none.xml"),
    ],
)
def test_a_wrong_flag_is_one_line(flags, message, root, exported, tmp_path):
    (tmp_path / "commands.json").write_text("[[0, 0]]")
    flags = [tmp_path / "commands.json" if flag == "COMMANDS" else flag for flag in flags]
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
