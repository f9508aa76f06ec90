"""`rsl-rl bring-up`: wrong usage, drivers that fail, and the commands of docs/bring-up.md over UDP."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.bring_up import SimulatedDriver, deployed, describe
from rsl_rl.cli.bring_up import _Operator, largest_gains
from rsl_rl.cli.main import main
from rsl_rl.hardware.bring_up_report import robot_yaml
from rsl_rl.hardware.bring_up_result import Channel, Found
from rsl_rl.hardware.driver import StoppedError, Watched
from rsl_rl.hardware.imu import Imu, to_matrices
from rsl_rl.hardware.session import Request
from rsl_rl.robots import ROBOTS
from tests.deploy.test_ten_steps import free_port, stop
from tests.docs_blocks import commands

DRIVER = """
class Robot:
    def __init__(self, address=""):
        self.address = address
    def joint_names(self):
        return {names}
    def readings(self):
        {readings}
    def hold(self, *values):
        pass
    def stop(self):
        print("off")
    def close(self):
        print("closed")
"""


def run(capsys, *flags):
    code = main(["bring-up", *flags])
    return code, capsys.readouterr()


@pytest.fixture
def contract(root):
    return str(root / "zoo" / "go2_flat" / "policy.json")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--driver", "nothing_there"), "--driver nothing_there: No module named"),
        (("--driver", "json"), "has no function connect(address)"),
        (
            ("--driver", "json:dumps", "--address", "a"),
            "it has no joint_names(); docs/deploy.md lists the five methods",
        ),
        (("--driver", "json", "--share", "0.9"), "--torque_share 0.9: give 0.01 to 0.3"),
        (("--driver", "json", "--out", "no/folder/robot.yaml"), "is not a file in an existing folder"),
    ],
)
def test_wrong_usage_is_one_line(capsys, contract, flags, message):
    code, told = run(capsys, *flags, "--contract", contract)
    assert code == 2 and message in told.err and len(told.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("readings", "reason"),
    [
        ("raise OSError('no bus')", "the driver's readings() failed: OSError: no bus"),
        ("return 5", "the driver's readings() gives 5; give a mapping, or None"),
        ("return None", "stale reading: none has come in 2 s"),
    ],
)
def test_driver_that_fails_is_a_line_and_writes_nothing(
    capsys, contract, tmp_path, monkeypatch, readings, reason, request
):
    module = f"failing_{abs(hash(readings))}"
    (tmp_path / f"{module}.py").write_text(DRIVER.format(names=[f"m{i}" for i in range(12)], readings=readings))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    code, told = run(capsys, "--driver", f"{module}:Robot", "--contract", contract)
    assert code == 1 and f"stopped: {reason}" in told.out
    words = told.out.splitlines()
    assert "off" in words and words[-1] == "closed" and json.loads(words[-2])["determined"] is False
    assert not (tmp_path / "robot.yaml").exists() and not (tmp_path / "bring_up.html").exists()


def test_driver_that_does_not_return_does_not_keep_the_program(capsys, contract, tmp_path, monkeypatch):
    module = DRIVER.format(names=[f"m{i}" for i in range(12)], readings="import time; time.sleep(600)")
    module = module.replace('print("off")', "self.readings()").replace('print("closed")', "self.readings()")
    (tmp_path / "hanging.py").write_text(module)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "robot.yaml").write_text("{}")
    began = time.monotonic()
    code, told = run(capsys, "--driver", "hanging:Robot", "--contract", contract)
    assert code == 1 and time.monotonic() - began < 15
    assert "readings() has not returned within 1 s; the motors could not be switched off" in told.out
    assert "the older robot.yaml is left as it was" in told.out and "damped" not in told.out
    assert json.loads(told.out.splitlines()[-1])["determined"] is False


def test_driver_that_exits_while_it_is_imported_is_one_line(capsys, contract, tmp_path, monkeypatch):
    (tmp_path / "leaving.py").write_text("raise SystemExit(5)")
    monkeypatch.chdir(tmp_path)
    code, told = run(capsys, "--driver", "leaving", "--contract", contract)
    assert code == 2 and told.err.endswith("--driver leaving: SystemExit: 5\n") and len(told.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("changes", "gains"),
    [({}, (1.5, 0.2)), ({"damping": [0.0, 0.0]}, (1.5, 0.15)), ({"torque_limits": [0.0, 0.0]}, None)],
)
def test_gains_are_of_the_motors_that_have_them(changes, gains):
    description = {"torque_limits": [0.0, 10.0], "damping": [0.0, 0.2], **changes}
    if gains is None:
        with pytest.raises(ValueError, match="the contract has no torque limit above 0"):
            largest_gains(description, 0.15)
    else:
        assert largest_gains(description, 0.15) == pytest.approx(gains)


def test_operator_of_a_driver_that_hangs_is_told(capsys):
    driver = SimpleNamespace(joint_names=lambda: ["a"], ask=lambda motion: time.sleep(60))
    with pytest.raises(StoppedError, match=r"ask\(\) has not returned within 0.1 s"):
        _Operator(driver, Watched(driver, timeout=0.1))(Request("Turn it.", {}))


class Terminated(SimulatedDriver):
    """A robot on a stand in this process, which sends its own process a signal; it keeps what it is sent."""

    def __init__(self, walker):
        super().__init__(walker)
        self.sent, self.calls = [], []

    def hold(self, targets, stiffness, damping):
        super().hold(targets, stiffness, damping)
        self.sent.append((stiffness, damping))
        if self.clock() > 3.0 and not self.calls:
            self.calls.append("signal")
            os.kill(os.getpid(), signal.SIGTERM)

    def stop(self):
        super().stop()
        self.calls.append("stop")

    def close(self):
        self.calls.append("close")


def test_robot_of_a_terminated_command_is_damped_and_switched_off(capsys, contract, tmp_path, monkeypatch):
    path = ROBOTS.load("go2").model_path
    walker = deployed("wired_robot").WiredWalker
    wiring = deployed("wired_robot").Wiring()
    driver = Terminated(walker(__import__("mujoco"), (describe(path), None), wiring, path, stand=True))
    monkeypatch.setitem(sys.modules, "in_process", SimpleNamespace(connect=lambda address: driver))
    monkeypatch.setattr("rsl_rl.cli.bring_up.time", SimpleNamespace(monotonic=driver.clock, sleep=driver.sleep))
    monkeypatch.chdir(tmp_path)
    code, told = run(capsys, "--driver", "in_process", "--contract", contract)
    assert code == 130 and driver.calls == ["signal", "stop", "close"]
    assert driver.sent[0][0].any() and len(driver.sent) > 100
    assert all(not stiffness.any() and damping.all() for stiffness, damping in driver.sent[-100:])
    assert "stopped: interrupted; the joints were damped and the motors were switched off" in told.out
    assert json.loads(told.out.splitlines()[-1]) == {"determined": False, "stopped": "interrupted"}
    assert not list(tmp_path.iterdir())


@pytest.fixture
def exported(root, tmp_path):
    """What `rsl-rl export` writes, beside where the commands run."""
    pytest.importorskip("onnxruntime")
    folder = tmp_path / "exported"
    folder.mkdir()
    for name in ("onnx_policy.py", "robot_loop.py", "udp_driver.py"):
        shutil.copy(root / "deploy" / name, folder)
    shutil.copy(root / "zoo" / "go2_flat" / "policy.onnx", folder)
    return folder


class Commands:
    """Runs commands of the page in a folder, with one simulated robot at a time."""

    def __init__(self, folder):
        self.folder, self.port, self.robot = folder, free_port(), None

    def begin(self, command):
        """Begin a command, and return the process."""
        words = shlex.split(command.replace("9870", self.port))
        python = [sys.executable, "-m", "rsl_rl"] if words[0] == "rsl-rl" else [sys.executable]
        return subprocess.Popen(
            [*python, *words[1:]], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def run(self, command):
        """Run a command; return what it did, None for that of a robot, which goes on."""
        if command.startswith("rsl-rl sim-robot"):
            self.end()
            self.robot = self.begin(command)
            assert self.robot.stdout.readline().endswith(f":{self.port}\n")
            return None
        with self.begin(command) as program:
            try:
                told, _ = program.communicate(timeout=400)
            finally:
                program.kill()
        return SimpleNamespace(returncode=program.returncode, stdout=told)

    def end(self):
        self.robot = self.robot and stop(self.robot)


@pytest.fixture
def terminal(tmp_path):
    terminal = Commands(tmp_path)
    yield terminal
    terminal.end()


BUSY = ("missed deadline", "stale reading", "nothing was sent", "the loop ran once")


def in_time(attempt):
    """Return what a command did that runs in real time, once this machine is not too busy for it."""
    for _ in range(3):
        done = attempt()
        if not any(text in done.stdout for text in BUSY):
            return done
    pytest.skip(f"too busy a machine: {done.stdout.splitlines()[-1]}")


def wiring_of(root):
    """Return a wiring of the policy's robot, and the robot.yaml of a bring-up without errors."""
    description = json.loads((root / "zoo" / "go2_flat" / "policy.json").read_text())
    names, wired = description["joint_names"], deployed("wired_robot")
    wiring = wired.draw_wiring(names, description["torque_limits"], 3)
    told = zip(names, wiring.joints, wiring.signs, wiring.zeros)
    channels = [Channel(name, joint, int(sign), zero, 0.01) for name, joint, sign, zero in told]
    imu = Imu("wxyz", to_matrices(np.array([wiring.imu_mounting]))[0], "rad/s", 0.01)
    return wiring, robot_yaml(Found(channels, imu, dict(wiring.units)), "go2")


def test_bring_up_over_udp_pushes_motors_until_it_is_interrupted(root, exported, terminal, tmp_path):
    """The commands of the page, as far as the pushes of some joints."""
    draw, bring_up, _, _ = commands(root / "docs" / "bring-up.md")

    def attempt():
        terminal.run(draw)
        lines = []
        with terminal.begin(bring_up) as program:
            for line in program.stdout:
                lines.append(line)
                if line.startswith("pushing joint 3 of 12"):
                    program.send_signal(signal.SIGINT)
        return SimpleNamespace(returncode=program.returncode, stdout="".join(lines))

    done = in_time(attempt)
    assert done.returncode == 130, done.stdout
    assert "interrupted; the joints were damped and the motors were switched off; nothing is written" in done.stdout
    told = json.loads(terminal.robot.stdout.readline())  # when its motors are switched off
    assert 0.02 < told["largest_torque_share"] <= 0.15 and not told["watchdog"]
    assert not (tmp_path / "robot.yaml").exists()


def test_robot_with_a_wiring_walks_over_udp(root, exported, terminal, tmp_path):
    """The commands of the page after a bring-up."""
    _, _, robot, walk = commands(root / "docs" / "bring-up.md")
    wiring, found = wiring_of(root)
    deployed("wired_robot").write_wiring(wiring, tmp_path / "wiring.json")
    (tmp_path / "robot.yaml").write_bytes(found)
    terminal.run(robot)
    done = in_time(lambda: terminal.run(walk.replace("--seconds 10", "--seconds 2")))
    assert done.returncode == 0 and "stopped: the time is over" in done.stdout, done.stdout


@pytest.mark.slow
def test_commands_of_the_page_lead_from_bring_up_to_walking(root, exported, terminal, tmp_path):
    """Two processes with UDP between them, as they stand on the page; needs a machine that is not busy."""
    told = []
    for command in commands(root / "docs" / "bring-up.md"):
        done = terminal.run(command)
        if done is not None:
            assert done.returncode == 0, f"{command}\n{done.stdout}"
            told.append(done.stdout)
    assert "wiring: robot.yaml" in told[0] and "stopped: the time is over" in told[1]
    wiring = json.loads((tmp_path / "wiring.json").read_text())
    joints = json.loads((tmp_path / "robot.yaml").read_text())["joints"]
    assert [one["name"] for one in joints] == wiring["joints"]
    assert [one["sign"] for one in joints] == wiring["signs"]
    assert [one["zero"] for one in joints] == pytest.approx(wiring["zeros"], abs=0.06)
