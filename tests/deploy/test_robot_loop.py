"""The loop on the robot, with faults of every kind in a simulated time: what is sent, when, and why it ends."""

import asyncio
import shutil
import signal
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

from deploy import onnx_policy

PERIOD, MAX_AGE = 0.02, 0.05
STALE, DEADLINE, LIMITS = "stale reading", "missed deadline", "target beyond limits"


@pytest.fixture(scope="module")
def robot_loop(pytestconfig):
    """The module, which imports its neighbour by its file name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "onnx_policy", onnx_policy)
        patch.syspath_prepend(str(pytestconfig.rootpath / "deploy"))
        import robot_loop

        yield robot_loop
        del sys.modules["robot_loop"]


class FaultyRobot:
    """A driver and a clock. From ``fault_time`` on, one thing goes wrong; it records what is sent and when."""

    def __init__(self, fault=None, fault_time=np.inf, size=0.0):
        self.now, self.fault, self.fault_time, self.size = 100.0, fault, 100.0 + fault_time, size
        self.began = self.now  # when the current control step was to begin
        self.sent, self.calls, self.used_at, self.reading_time = [], [], 0.0, 0.0

    def has(self, fault):
        return self.fault == fault and self.now >= self.fault_time

    def clock(self):
        return self.now

    def sleep(self, seconds):
        self.began = self.now + seconds if seconds > 0 else self.began + PERIOD
        self.now += seconds + (self.size if self.has("paused") else 0.0)

    def joint_names(self):
        return ["knee", "hip"]

    def readings(self):
        if self.has("broken connection"):
            raise OSError("Network is unreachable")
        if self.has("slow driver"):
            self.now += self.size
        measured = self.now - 0.001
        if self.has("silence"):
            measured = self.fault_time - 0.001
        if self.has("late packets"):
            measured -= self.size
        wrong = np.nan if self.has("broken sensor") else 0.1
        self.reading_time = np.nan if self.has("broken clock") else measured
        return {"joint_pos": np.array([wrong, 0.2]), "joint_vel": np.zeros(2), "time": self.reading_time}

    def hold(self, targets, stiffness, damping):
        if self.has("no way out"):
            raise OSError("No buffer space available")
        self.calls.append("hold" if np.any(stiffness) else "damp")
        if np.any(stiffness):
            self.sent.append((self.now - self.began, self.now - self.reading_time, self.now))

    def stop(self):
        self.calls.append("stop")

    def close(self):
        pass


def policy_of(robot):
    """A policy of two joints whose network is slow or wrong if the robot's fault says so."""
    terms = [{"name": name, "size": 2, "scale": 1.0, "frame": "joint"} for name in ("joint_pos", "joint_vel")]
    description = {
        "inputs": {"obs": [1, 4]},
        "observations": terms,
        "joint_names": ["hip", "knee"],
        "default_joint_pos": [0.1, -0.2],
        "action_scale": 0.25,
        "action_clip": 2.0,
        "stiffness": [30.0, 40.0],
        "damping": [1.0, 2.0],
        "torque_limits": [20.0, 45.0],
        "target_limits": [[-1.0, 1.0], [-2.0, 0.5]],
        "control_period": PERIOD,
    }

    def network(obs):
        robot.now += robot.size if robot.has("slow policy") else 0.002
        return [np.array([[1.0, 0.5]], np.float32)]

    class Wrong(onnx_policy.Policy):
        def __call__(self, **state):
            targets = super().__call__(**state)
            if robot.has("wrong target"):
                targets[0] = robot.size
            return targets

    return Wrong(description, network, robot.joint_names())


FAULTS = {  # kind -> its smallest and largest size, and what the reason begins with
    "silence": (0.0, 0.0, STALE),
    "late packets": (0.06, 2.0, STALE),
    "broken clock": (0.0, 0.0, STALE),
    "slow driver": (0.021, 0.5, f"{STALE}|{DEADLINE}"),
    "slow policy": (0.021, 0.5, DEADLINE),
    "paused": (0.021, 2.0, f"{STALE}|{DEADLINE}"),
    "wrong target": (3.0, 1e30, LIMITS),
    "broken sensor": (0.0, 0.0, "PolicyStoppedError: stopped after|ValueError: the policy senses joint_pos"),
    "broken connection": (0.0, 0.0, "OSError: Network is unreachable"),
    "no way out": (0.0, 0.0, "OSError: No buffer space available"),
}


@pytest.mark.parametrize("num_faults", [200, pytest.param(1000, marks=pytest.mark.slow)])
def test_loop_with_faults_of_every_kind_sends_no_target_too_late_and_says_why_it_stopped(robot_loop, num_faults):
    generator, ended = np.random.default_rng(num_faults), Counter()
    for i in range(num_faults):
        kind = list(FAULTS)[i % len(FAULTS)]
        smallest, largest, reasons = FAULTS[kind]
        robot = FaultyRobot(kind, generator.uniform(0.1, 1.0), generator.uniform(smallest, largest))
        policy = policy_of(robot)
        loop = robot_loop.ControlLoop(robot, policy, MAX_AGE, 0.1, robot.clock, robot.sleep)
        reason = loop.run((0.0, 0.0, 0.0), seconds=1.0, stand_seconds=0.3)
        assert any(reason.startswith(start) for start in reasons.split("|")), f"{kind}: {reason}"
        assert "\n" not in reason
        assert robot.sent and loop.num_sent - len(robot.sent) == (kind == "no way out")
        for since_began, age, _ in robot.sent:
            assert since_began <= PERIOD + 1e-9 and (age <= MAX_AGE + PERIOD or kind == "broken sensor")
        damping = [] if kind == "no way out" else ["damp"] * 5
        assert robot.calls == ["hold"] * len(robot.sent) + damping + ["stop"], kind
        if kind in ("silence", "late packets", "broken clock", "wrong target", "broken connection"):
            delay = MAX_AGE * (kind == "silence") + 2 * PERIOD  # while standing, targets are not the policy's
            late = max(when for _, _, when in robot.sent) - robot.fault_time
            assert late <= delay or (kind == "wrong target" and robot.fault_time < 100.0 + 0.3 + PERIOD)
        ended[reason.split(":")[0]] += 1
    assert min(ended[name] for name in (STALE, DEADLINE, LIMITS, "OSError", "PolicyStoppedError")) >= num_faults // 20


@pytest.mark.parametrize(("kind", "size"), [("late packets", 0.03), ("slow policy", 0.015), ("paused", 0.01)])
def test_loop_with_delays_within_the_limits_walks_to_the_end(robot_loop, kind, size):
    robot = FaultyRobot(kind, 0.2, size)
    loop = robot_loop.ControlLoop(robot, policy_of(robot), MAX_AGE, 0.1, robot.clock, robot.sleep)
    assert loop.run((0.0, 0.0, 0.0), 1.0, 0.3) == robot_loop.TIME_OVER
    assert robot.calls == ["hold"] * (15 + 50) + ["damp"] * 5 + ["stop"]


@pytest.mark.parametrize("kind", ["silence", "broken sensor", "broken connection"])
def test_loop_with_a_fault_from_the_start_moves_nothing(robot_loop, kind):
    robot = FaultyRobot(kind, -1.0)
    loop = robot_loop.ControlLoop(robot, policy_of(robot), MAX_AGE, 0.1, robot.clock, robot.sleep)
    assert loop.run((0.0, 0.0, 0.0), 1.0) != robot_loop.TIME_OVER
    assert robot.calls == ["stop"]


def test_loop_moves_to_the_pose_of_the_policy_before_it_walks(robot_loop):
    robot, poses = FaultyRobot(), []
    robot.hold = lambda targets, stiffness, damping: poses.append(targets.copy())
    policy = policy_of(robot)
    robot_loop.ControlLoop(robot, policy, MAX_AGE, 0.0, robot.clock, robot.sleep).run((0.0, 0.0, 0.0), 0.1, 0.2)
    np.testing.assert_allclose(poses[4], 0.5 * (np.array([0.1, 0.2]) + policy.default_joint_pos), atol=1e-6)
    np.testing.assert_allclose(poses[9], policy.default_joint_pos, atol=1e-6)
    np.testing.assert_allclose(poses[10], [-0.2 + 0.125, 0.1 + 0.25], atol=1e-6)  # the first action; knee, hip
    assert len(poses) == 15


def test_loop_that_is_interrupted_damps_and_stops(robot_loop):
    robot = FaultyRobot()

    def interrupted(seconds):
        if len(robot.sent) == 20:
            robot.sent.append(None)
            raise KeyboardInterrupt
        FaultyRobot.sleep(robot, seconds)

    loop = robot_loop.ControlLoop(robot, policy_of(robot), MAX_AGE, 0.1, robot.clock, interrupted)
    assert loop.run((0.0, 0.0, 0.0), 1.0) == robot_loop.INTERRUPTED
    assert robot.calls == ["hold"] * 20 + ["damp"] * 5 + ["stop"]


class UnprintableError(Exception):
    def __str__(self):
        raise ZeroDivisionError


@pytest.mark.parametrize("kind", [SystemExit, asyncio.CancelledError, GeneratorExit, UnprintableError])
def test_loop_with_a_driver_that_exits_damps_and_stops(robot_loop, kind):
    robot = FaultyRobot()

    def exits():
        if len(robot.sent) == 20:
            raise kind("the driver gives up")
        return FaultyRobot.readings(robot)

    robot.readings = exits
    loop = robot_loop.ControlLoop(robot, policy_of(robot), MAX_AGE, 0.1, robot.clock, robot.sleep)
    text = "" if kind is UnprintableError else ": the driver gives up"
    assert loop.run((0.0, 0.0, 0.0), 1.0) == kind.__name__ + text
    assert robot.calls == ["hold"] * 20 + ["damp"] * 5 + ["stop"]


POLICY = """
import numpy as np

class OnnxPolicy:
    def __init__(self, path, names, **files):
        self.joint_names, self.control_period, self.counts = list(names), 0.2, {}
        self.default_joint_pos = self.stiffness = self.damping = np.ones(2)
        self.target_limits = np.array([[-2.0, 2.0]] * 2)

    def reset(self):
        pass

    def __call__(self, command, joint_pos):
        return np.zeros(2)
"""
DRIVER = """
import os, signal, time

class Robot:
    count = 0

    def joint_names(self):
        return ["knee", "hip"]

    def readings(self):
        self.count += 1
        if self.count == 5:
            os.kill(os.getpid(), signal.{name})
        return {{"time": time.monotonic(), "joint_pos": [0.0, 0.0]}}

    def hold(self, targets, stiffness, damping):
        print("hold" if stiffness.any() else "damp")

    def stop(self):
        print("stop")

    def close(self):
        print("close")

def connect(address):
    {connect}
    return Robot()
"""


@pytest.fixture
def start_loop(root, tmp_path):
    """Run the loop as a process with a driver that sends it a signal, and a policy that stands still."""

    def run(name="SIGHUP", connect="", before=None):
        shutil.copy(root / "deploy" / "robot_loop.py", tmp_path)
        (tmp_path / "onnx_policy.py").write_text(POLICY)
        (tmp_path / "own_driver.py").write_text(DRIVER.format(name=name, connect=connect or "pass"))
        words = ("robot_loop.py", "policy.onnx", "--driver", "own_driver", "--seconds", "0.8", "--stand_seconds", "0.2")
        return subprocess.run(
            [sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=False, preexec_fn=before
        )

    return run


@pytest.mark.parametrize("name", ["SIGHUP", "SIGQUIT", "SIGUSR1"])
def test_loop_with_any_signal_damps_and_switches_the_motors_off(start_loop, name):
    done = start_loop(name, before=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL))  # also under nohup
    words = done.stdout.split()
    assert done.returncode == 130 and "stopped: interrupted" in done.stdout
    assert words.count("hold") <= 2 and words.index("damp") < words.index("stop") < words.index("close")


def test_loop_under_nohup_goes_on_when_the_terminal_closes(start_loop):
    done = start_loop("SIGHUP", before=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    assert done.returncode == 0 and "stopped: the time is over" in done.stdout


def test_driver_that_exits_before_it_is_connected_is_one_line(start_loop):
    done = start_loop(connect="raise SystemExit(5)")
    assert (done.returncode, done.stderr) == (2, "robot_loop.py: --driver own_driver: SystemExit: 5\n")


@pytest.mark.parametrize("times", [1, 3])
def test_loop_that_is_interrupted_while_it_stops_switches_the_motors_off(robot_loop, times):
    robot, interrupts = FaultyRobot("wrong target", 0.5, 9.0), [KeyboardInterrupt] * times

    def stop():
        if interrupts:
            raise interrupts.pop()
        FaultyRobot.stop(robot)

    robot.stop = stop
    loop = robot_loop.ControlLoop(robot, policy_of(robot), MAX_AGE, 0.1, robot.clock, robot.sleep)
    assert loop.run((0.0, 0.0, 0.0), 1.0, 0.3).startswith("target beyond limits")
    assert robot.calls[-1] == "stop"


def test_loop_that_is_interrupted_while_it_damps_switches_the_motors_off(robot_loop):
    robot = FaultyRobot("wrong target", 0.5, 9.0)

    def hold(targets, stiffness, damping):
        if not np.any(stiffness):
            raise KeyboardInterrupt
        FaultyRobot.hold(robot, targets, stiffness, damping)

    robot.hold = hold
    loop = robot_loop.ControlLoop(robot, policy_of(robot), MAX_AGE, 0.1, robot.clock, robot.sleep)
    assert loop.run((0.0, 0.0, 0.0), 1.0, 0.3).endswith("; the damping was interrupted")
    assert robot.calls[-1] == "stop" and "damp" not in robot.calls


def test_motors_that_cannot_be_switched_off_are_told(robot_loop):
    def broken():
        raise OSError("No route to host")

    robot = FaultyRobot("wrong target", 0.5, 9.0)
    robot.stop = broken
    loop = robot_loop.ControlLoop(robot, policy_of(robot), MAX_AGE, 0.1, robot.clock, robot.sleep)
    reason = loop.run((0.0, 0.0, 0.0), 1.0, 0.3)
    assert reason.startswith("target beyond limits: 9.000 of knee is not in [-2.000, 0.500]")
    assert reason.endswith("; the motors could not be switched off: OSError: No route to host")


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ValueError("give\na time"), 2, "x.py: give a time"),
        (RuntimeError("no\npower"), 2, "x.py: RuntimeError: no power"),
        (SystemExit(), 2, "x.py: SystemExit: "),
        (KeyboardInterrupt(), 130, "x.py: interrupted before the robot was connected; nothing was sent"),
    ],
)
def test_program_that_is_not_connected_ends_with_one_line(robot_loop, monkeypatch, capsys, error, code, line):
    def connect():
        raise error

    monkeypatch.setattr(robot_loop, "take_signals", lambda: None)
    assert robot_loop.run_program("x.py", connect, lambda driver, played: 0) == code
    assert capsys.readouterr().err == line + "\n"


def test_program_that_is_connected_plays_and_returns_its_code(robot_loop, monkeypatch):
    monkeypatch.setattr(robot_loop, "take_signals", lambda: None)
    assert robot_loop.run_program("x.py", lambda: ("driver", "policy"), lambda *given: len(given[0] + given[1])) == 12
