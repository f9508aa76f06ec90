"""The commands of docs/identify.md, in their order and as they stand there, on simulated robots."""

import shlex
import shutil
import subprocess
import sys

import numpy as np
import pytest

from benchmarks.identify_robot import STEP, HiddenRobot, log_excitation
from deploy.onnx_policy import open_onnx
from rsl_rl.config.identified import read_identified
from rsl_rl.hardware.identification import read_recording
from tests.deploy.test_ten_steps import free_port
from tests.docs_blocks import commands

SMALL = {
    "rsl-rl identify --excite": ("--seconds", "6", "--torque_share", "0.3"),
    "rsl-rl identify stand.csv": ("--per", "group"),
    "rsl-rl train-actuator": ("--epochs", "2"),
    "rsl-rl train ": (
        *("--num_envs", "8", "--runner.num_steps_per_env", "4", "--max_iterations", "1", "--log_root", "logs"),
        *("--logger", "none"),
    ),
}


def play_on_a_stand(root, folder, command):
    """Run the command of excite.py with a robot of UDP that hangs on a stand."""
    for name in ("excite.py", "onnx_policy.py", "policy_records.py", "robot_loop.py", "udp_driver.py"):
        shutil.copy(root / "deploy" / name, folder)
    port, policy = free_port(), root / "zoo" / "go2_flat" / "policy.onnx"
    words = [sys.executable, "-m", "rsl_rl", "sim-robot", policy, "--port", port, "--stand"]
    play = [sys.executable, *shlex.split(command.replace("9870", port))[1:], "--stand_seconds", "1"]
    for _ in range(5):  # a machine that is busy misses deadlines
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as robot:
            try:
                assert robot.stdout is not None and robot.stdout.readline().endswith(f":{port}\n")
                done = subprocess.run(play, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
            finally:
                robot.terminate()
        if "missed deadline" not in done.stdout:
            break
    assert done.returncode == 0 and "stopped: the time is over" in done.stdout, done.stdout + done.stderr


@pytest.mark.slow
def test_commands_of_the_page_run_in_their_order(root, tmp_path, rsl_rl_here, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(root / "deploy")
    from excite import read_motion

    shutil.copy(root / "zoo" / "go2_flat" / "policy.json", tmp_path)
    description, _ = open_onnx(root / "zoo" / "go2_flat" / "policy.onnx")
    joints = len(description["joint_names"])
    hidden = {
        "armature": np.full(joints, 0.016), "motor_strength": np.full(joints, 0.9),
        "viscous_friction": np.full(joints, 0.2), "joint_friction": np.full(joints, 0.3),
        "torque_limit": np.array(description["torque_limits"]), "encoder_offset": np.zeros(joints),
        "action_delay": np.array([40 * STEP]), "sensing_delay": np.zeros(1),
    }  # fmt: skip
    for command in commands(root / "docs" / "identify.md"):
        if command.startswith("python excite.py"):
            (tmp_path / "stand.csv").unlink()
            play_on_a_stand(root, tmp_path, command)
            assert read_recording(tmp_path / "stand.csv", description).seconds > 5.0
            shutil.copy(tmp_path / "torques.csv", tmp_path / "stand.csv")  # with the hidden parameters
            continue
        small = next(words for start, words in SMALL.items() if command.startswith(start))
        assert rsl_rl_here(*shlex.split(command)[1:], *small) == 0, command
        if "--excite" in command:
            names, rows = read_motion(tmp_path / "excitation.csv")
            targets = rows[:, 1:][:, [names.index(name) for name in description["joint_names"]]]
            robot = HiddenRobot(description, hidden, np.random.default_rng(0), True)
            for name in ("stand.csv", "torques.csv"):
                log_excitation(robot, targets, rows[1, 0] - rows[0, 0], tmp_path / name)
    found = read_identified(tmp_path / "identified.yaml").parameters
    assert abs(found["action_delay"]["robot"][0] - 0.01) < 0.001
    assert all(abs(value - 0.9) < 0.05 for value, *_ in found["motor_strength"].values())
