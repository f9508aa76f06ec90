"""The player of an excitation: a driver in simulated time, and the log that it writes."""

import json
import subprocess
import sys

import numpy as np
import pytest

from rsl_rl.cli.doctor import read_description
from rsl_rl.hardware.identification import read_recording

ROWS, PERIOD = 500, 0.01


@pytest.fixture
def excite(root, monkeypatch):
    monkeypatch.syspath_prepend(root / "deploy")
    import excite

    return excite


@pytest.fixture
def files(root, tmp_path):
    """A motion of a Go2 whose first joint turns the other way, and its contract."""
    contract = json.loads((root / "zoo" / "go2_flat" / "policy.json").read_text())
    contract["joint_signs"][0] = -1.0
    (tmp_path / "policy.json").write_text(json.dumps(contract))
    names = contract["joint_names"]
    time = PERIOD * np.arange(ROWS)
    pose = np.array(contract["joint_signs"]) * contract["default_joint_pos"]
    targets = pose + 0.2 * np.sin(4 * time)[:, None]
    lines = [",".join(["time [s]", *(f"target.{name} [rad]" for name in names)])]
    lines += [",".join(f"{x:.6f}" for x in (t, *row)) for t, row in zip(time, targets)]
    (tmp_path / "excitation.csv").write_text("\n".join(lines) + "\n")
    return tmp_path, contract, targets


class Robot:
    """A driver whose joints, in another order, follow the targets at once; a hold takes no time."""

    def __init__(self, names):
        self.names, self.now, self.sent = list(reversed(names)), 0.0, []
        self.pos, self.stopped = np.zeros(len(names)), False

    def joint_names(self):
        return self.names

    def readings(self):
        noise = 1e-4 * np.sin(1e3 * self.now + np.arange(len(self.pos)))
        sensed = {
            "joint_pos": self.pos + noise,
            "joint_vel": noise,
            "base_quat": [1, 0, 0, 0],
            "base_ang_vel": [0, 0, 0],
        }
        return {**sensed, "time": self.now}

    def hold(self, targets, stiffness, damping):
        self.sent.append((targets, stiffness))
        self.pos = np.array(targets, float)

    def stop(self):
        self.stopped = True

    def close(self):
        pass


def play(excite, files, robot):
    folder, contract, _ = files
    return run(excite.Motion(folder / "excitation.csv", contract, robot.joint_names(), folder / "stand.csv"), robot)


def run(motion, robot):
    motion.clock = lambda: robot.now
    from robot_loop import ControlLoop

    loop = ControlLoop(robot, motion, clock=lambda: robot.now, sleep=lambda s: setattr(robot, "now", robot.now + s))
    reason = loop.run((0, 0, 0), motion.seconds, 1.0)
    motion.reset()
    return reason


def test_motion_is_played_row_by_row_and_logged(excite, files):
    folder, contract, targets = files
    robot = Robot(contract["joint_names"])
    assert play(excite, files, robot) == "the time is over" and robot.stopped
    moved = np.array([row for row, stiffness in robot.sent if stiffness.any()])[-ROWS:]
    np.testing.assert_allclose(moved[:, ::-1], targets, atol=1e-5)
    recording = read_recording(folder / "stand.csv", contract)
    own = np.array(contract["joint_signs"]) * targets
    np.testing.assert_allclose(recording.motion.targets, own, atol=1e-5)
    np.testing.assert_allclose(recording.motion.joint_pos[1:], own[:-1], atol=1e-3)
    assert recording.pieces == ((0, ROWS),) and abs(recording.period - PERIOD) < 1e-6


def test_log_has_the_quaternion_in_the_order_of_the_contract(excite, files):
    folder, contract, _ = files
    contract["quaternion_order"] = "xyzw"
    robot = Robot(contract["joint_names"])
    whole, turned = robot.readings, np.array([0.6, 0.0, 0.0, 0.8])  # about x
    robot.readings = lambda: {**whole(), "base_quat": turned}
    play(excite, files, robot)
    assert (
        (folder / "stand.csv")
        .read_text()
        .startswith("time [s],episode,base_quat.x,base_quat.y,base_quat.z,base_quat.w,")
    )
    np.testing.assert_allclose(read_recording(folder / "stand.csv", contract).motion.base_quat[0], [0.8, 0.6, 0, 0])


def test_robot_yaml_is_the_wiring_of_motion_and_log(excite, files, monkeypatch):
    folder, contract, targets = files
    names, signs = contract["joint_names"], np.array(contract["joint_signs"])
    zeros = 0.01 * np.arange(len(names))
    wiring = {
        "format": 1, "quaternion_order": "wxyz", "imu_mounting": [1.0, 0.0, 0.0, 0.0], "units": contract["units"],
        "joints": [
            {"name": name, "driver_name": f"m{i}", "sign": sign, "zero": zero}
            for i, (name, sign, zero) in reversed(list(enumerate(zip(names, signs, zeros))))
        ],
    }  # fmt: skip
    (folder / "robot.yaml").write_text(json.dumps(wiring))
    (folder / "policy.json").write_text(json.dumps({**contract, "joint_signs": [1.0] * len(names)}))
    rows = np.column_stack((PERIOD * np.arange(ROWS), targets + zeros))
    header = ",".join(["time [s]", *(f"target.{name} [rad]" for name in names)])
    np.savetxt(folder / "excitation.csv", rows, "%.6f", ",", header=header, comments="")
    robot = Robot([f"m{i}" for i in range(len(names))])
    monkeypatch.setattr(excite, "connect_driver", lambda *_: robot)
    command = ["excite.py", "excitation.csv", "--contract", "policy.json", "--driver", "m", "--log", "stand.csv"]
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", [*command, "--robot", "robot.yaml"])
    _, motion = excite.connect(excite.parse())
    assert run(motion, robot) == "the time is over"
    moved = np.array([row for row, stiffness in robot.sent if stiffness.any()])[-ROWS:]
    np.testing.assert_allclose(moved[:, ::-1], targets + zeros, atol=1e-5)
    description = read_description(folder / "policy.json", folder / "robot.yaml")
    recording = read_recording(folder / "stand.csv", description)
    np.testing.assert_allclose(recording.motion.targets, signs * targets, atol=1e-5)
    robot.names = list(robot.names)[::-1]
    with pytest.raises(ValueError, match="of a driver that names its joints"):
        excite.connect(excite.parse())


def test_stale_reading_ends_the_motion_with_damping(excite, files):
    robot = Robot(files[1]["joint_names"])
    whole = robot.readings
    robot.readings = lambda: {**whole(), "time": min(robot.now, 3.0)}
    assert play(excite, files, robot).startswith("stale reading")
    assert robot.stopped and not robot.sent[-1][1].any()


def test_target_beyond_the_range_of_a_joint_is_not_sent(excite, files):
    _, contract, _ = files
    contract["joint_limits"] = [[low + 0.9 * (high - low), high] for low, high in contract["joint_limits"]]
    robot = Robot(contract["joint_names"])
    robot.pos = np.array([high for _, high in contract["joint_limits"]])[::-1]
    assert "target beyond limits" in play(excite, files, robot)
    assert len(robot.sent) == 0


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda text: text.replace("target.FL_hip_joint", "target.arm"), "the contract"),
        (lambda text: text.replace("time [s]", "t"), "is not a motion"),
        (lambda text: text.rsplit("\n", 3)[0] + "\n9.0" + ",0" * 12 + "\n", "not even in time"),
        (lambda text: text.replace("0.010000,", "x,", 1), "not numbers"),
    ],
)
def test_damaged_motion_is_one_line(excite, files, change, message):
    folder, contract, _ = files
    path = folder / "excitation.csv"
    path.write_text(change(path.read_text()))
    with pytest.raises(ValueError, match=message):
        excite.Motion(path, contract, contract["joint_names"], folder / "stand.csv")


def test_command_without_a_robot_ends_with_one_line(files, root):
    folder, _, _ = files
    command = [root / "deploy" / "excite.py", folder / "excitation.csv", "--contract", folder / "policy.json"]
    command += ["--driver", "no_such_driver", "--log", folder / "stand.csv"]
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
    told = "excite.py: --driver no_such_driver: No module named 'no_such_driver'\n"
    assert (done.returncode, done.stderr) == (2, told)
    assert not (folder / "stand.csv").exists()
