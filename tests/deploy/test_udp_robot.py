"""The loop and a simulated robot, two processes with UDP between them, over connections that fail."""

import importlib
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest
import torch

from configs.go2_flat import flat_task
from configs.train_config import TrainConfig
from deploy import onnx_policy
from rsl_rl.cli.export import describe_robot_policy
from rsl_rl.config.policy import ActorCriticConfig
from rsl_rl.exporters import describe_module, policy_module
from rsl_rl.runners import OnPolicyRunner

pytest.importorskip("onnxruntime")

MAX_SILENCE = 0.1
"""Of the robot's motors [s], see udp_robot.py."""


@pytest.fixture(scope="module")
def deployed(pytestconfig):
    """The modules of deploy/ as they import each other on a robot."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "onnx_policy", onnx_policy)
        patch.syspath_prepend(str(pytestconfig.rootpath / "deploy"))
        modules = {
            name: importlib.import_module(name) for name in ("robot_loop", "udp_driver", "sim_to_sim", "udp_robot")
        }
        yield modules
        for name in modules:
            del sys.modules[name]


@pytest.fixture(scope="module")
def policy_file(tmp_path_factory):
    """A policy that lets a Go2 stand."""
    torch.manual_seed(0)
    task = replace(flat_task(), num_envs=2)
    nets = ActorCriticConfig(actor_hidden_dims=(16,), critic_hidden_dims=(8,))
    runner = OnPolicyRunner(task.build(seed=1), TrainConfig(policy=nets, env=task))
    with torch.no_grad():
        for parameter in runner.alg.policy.actor_model.parameters():
            parameter.mul_(0.1)
    interface = {**describe_module(policy_module(runner.alg.policy)), **runner.env.describe_interface(["policy"])}
    description = describe_robot_policy({"task": "go2_flat", **interface}, Path("model_0.pt"))
    return runner.export_policy_to_onnx(tmp_path_factory.mktemp("exported"), metadata=description)


class RobotProcess:
    """A simulated robot in a process of its own."""

    def __init__(self, root, policy, *flags):
        command = [sys.executable, str(root / "deploy" / "udp_robot.py"), str(policy), "--port", "0", *flags]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().split()[-1]
        self._lines = queue.Queue()
        self._reader = threading.Thread(target=lambda: list(map(self._lines.put, self.process.stdout)))
        self._reader.start()
        host, port = self.address.split(":")
        self.outside = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.outside.settimeout(10)
        self.outside.connect((host, int(port)))

    def set_faults(self, **faults):
        self.outside.send(b"flaw" + json.dumps(faults).encode())
        assert self.outside.recv(100) == b"flaw"

    def close(self):
        self.process.kill()
        self._reader.join()  # at the end of the output
        self.process.communicate()
        self.outside.close()

    def report(self):
        """What the robot tells of the run that has ended; None if it got no targets."""
        self.set_faults()  # what it answers after this is of later packets
        try:
            return json.loads(self._lines.get(timeout=1))
        except queue.Empty:
            return None


@pytest.fixture(scope="module")
def robot(pytestconfig, policy_file):
    robot = RobotProcess(pytestconfig.rootpath, policy_file)
    yield robot
    robot.close()


MALFORMED = (
    *(b"", b"[1]", b"1", b"null", b'{"loss": "much"}', b'{"speed": 1}', b"\xff", b'{"loss": null}', b'{"late": [0.1]}'),
    *(b'{"loss": true}', b'{"loss": 2}', b'{"jitter": -1}', b'{"late": 1e999}', b'{"loss": NaN}', b'{"late": 1e9}'),
    b'{"late": 1%s}' % (b"0" * 400),  # too large for a float
    b"[" * 60_000,  # deeper than the parser goes
    b'{"jitter": %s}' % (b"[" * 50_000),
)


@pytest.mark.parametrize("content", MALFORMED, ids=range(len(MALFORMED)))
def test_robot_ignores_settings_of_the_connection_that_make_no_sense(robot, content):
    robot.outside.send(b"flaw" + content)
    robot.set_faults()
    assert robot.process.poll() is None
    robot.outside.settimeout(0.02)
    with pytest.raises(socket.timeout):  # the only answer was to the second packet
        robot.outside.recv(100)
    robot.outside.settimeout(10)


class Sabotage:
    """A driver that lets something go wrong after a number of targets, as an unlucky connection does."""

    def __init__(self, driver, after, strike, period=0.02):
        self.driver, self.left, self.strike, self.period = driver, after, strike, period
        self.joint_names, self.stop = driver.joint_names, driver.stop
        self.num_late, self.read_at, self.looked_at = 0, 0.0, 0.0

    def clock(self):
        """The clock of the loop."""
        self.looked_at = time.monotonic()
        return self.looked_at

    def readings(self):
        self.read_at = time.monotonic()
        return self.driver.readings()

    def hold(self, targets, stiffness, damping):
        if np.any(stiffness):  # the control step began before its readings were asked for; a process that waits for its
            # turn after the last look at the clock sends too late, and the motors refuse that
            self.num_late += self.looked_at - self.read_at > self.period
        self.driver.hold(targets, stiffness, damping)
        self.left -= 1
        if self.left == 0:
            self.strike()


def run(deployed, robot, policy, strike=lambda: None, after=0, seconds=1.0, wait=0.0):
    """Walk, with a fault after some targets, and wait [s] before the connection is good again; return the reason of the
    stop, the loop, and the robot's report. No target may be sent after the deadline of its step."""
    robot.set_faults()
    driver = deployed["udp_driver"].connect(robot.address)
    sabotage = Sabotage(driver, after, strike, policy.control_period)
    try:
        assert policy.joint_names == driver.joint_names()
        loop = deployed["robot_loop"].ControlLoop(sabotage, policy, damping_seconds=0.1, clock=sabotage.clock)
        reason = loop.run((0.0, 0.0, 0.0), seconds, stand_seconds=0.1)
        time.sleep(wait)
        robot.set_faults()
        time.sleep(0.01)
        driver.stop()  # again, where the first was lost
        assert sabotage.num_late == 0
        return reason, loop, robot.report()
    finally:
        driver.close()


@pytest.fixture(scope="module")
def policy(policy_file):
    return onnx_policy.OnnxPolicy(policy_file)


def test_robot_behind_udp_stands_and_walks_until_the_time_is_over(deployed, robot, policy):
    for _ in range(10):
        reason, loop, report = run(deployed, robot, policy)
        if reason == deployed["robot_loop"].TIME_OVER:
            break
        assert reason.startswith(("stale reading", "missed deadline"))  # a busy machine
    else:
        pytest.skip("the machine is too busy for a second without a missed deadline")
    assert loop.num_sent == 55
    assert report["targets"] == 55 and report["damping"] >= 1 and not report["fallen"]


FAULTS = {
    "silence": lambda robot, size: robot.set_faults(loss=1.0),
    "late": lambda robot, size: robot.set_faults(late=size),
    "jitter": lambda robot, size: robot.set_faults(jitter=size, loss=0.5),
}


def check_fault(deployed, robot, policy, kind, size, after):
    """Let the connection fail, and check that the loop stopped with its reason, and what the motors followed; return
    the reason if the fault struck, and None on a busy machine, where the run may end before."""
    struck = []

    def strike():
        struck.append(kind)
        FAULTS[kind](robot, size)

    wait = 0.3 if kind == "silence" else 0.0  # for the watchdog of the motors
    reason, loop, report = run(deployed, robot, policy, strike, after, seconds=1.5, wait=wait)
    assert reason.startswith(("stale reading: the newest is ", "missed deadline: ")) or "none has come" in reason, (
        f"{kind}: {reason}"
    )
    if report is None:  # without a target
        assert not struck or kind != "jitter"
        return None
    assert report["targets"] <= loop.num_sent
    assert report["oldest_answer"] <= MAX_SILENCE
    if struck and kind == "silence":
        assert report["targets"] <= after  # nothing came through, and motors that followed a target damped it
        assert report["watchdog"] or report["targets"] == 0
    if struck and kind != "jitter":  # readings were good for 50 ms more
        assert loop.num_sent <= after + 4
    return reason.split(":")[0] if struck else None


@pytest.mark.parametrize("kind", FAULTS)
def test_connection_that_fails_stops_the_robot_with_a_reason(deployed, robot, policy, kind):
    for size, after in ((0.3, 7), (0.6, 20)):
        check_fault(deployed, robot, policy, kind, size, after)


@pytest.mark.slow
def test_a_thousand_failures_of_the_connection_stop_the_robot_with_a_reason(deployed, pytestconfig, policy_file):
    """Eight robots, each a process of its own, have the failures at the same time."""

    def fail_often(seed):
        generator, reasons, tries = np.random.default_rng(seed), [], 0
        robot = RobotProcess(pytestconfig.rootpath, policy_file, "--seed", str(seed))
        try:
            policy = onnx_policy.OnnxPolicy(policy_file)
            while len(reasons) < 125:
                kind, size = list(FAULTS)[len(reasons) % 3], generator.uniform(0.25, 0.8)
                reason = check_fault(deployed, robot, policy, kind, size, int(generator.integers(1, 15)))
                reasons += [reason] if reason else []
                tries += 1
                assert tries < 1000  # most runs reach the fault, on a machine that is not busy
        finally:
            robot.close()
        return reasons, tries

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(fail_often, range(8)))
    ended = Counter(reason for reasons, _ in results for reason in reasons)
    print(dict(ended), "of", sum(tries for _, tries in results), "runs")
    assert sum(ended.values()) == 1000
    assert ended["stale reading"] > 500


def test_robot_process_that_pauses_stops_the_loop_with_a_stale_reading(deployed, robot, policy_file):
    def pause():
        os.kill(robot.process.pid, signal.SIGSTOP)

    robot.set_faults()
    driver = deployed["udp_driver"].connect(robot.address)
    policy = onnx_policy.OnnxPolicy(policy_file, driver.joint_names())
    loop = deployed["robot_loop"].ControlLoop(Sabotage(driver, 10, pause), policy, damping_seconds=0.0)
    try:
        reason = loop.run((0.0, 0.0, 0.0), 1.0, stand_seconds=0.1)
    finally:
        os.kill(robot.process.pid, signal.SIGCONT)
        driver.close()
    assert reason.startswith(("stale reading", "missed deadline")) and loop.num_sent <= 14
    robot.report()


def test_loop_whose_process_dies_leaves_a_robot_that_damps_itself(deployed, robot, policy_file, root):
    command = [sys.executable, "robot_loop.py", str(policy_file), "--driver", "udp_driver", "--address", robot.address]
    for _ in range(5):  # on a busy machine the loop may have stopped before
        robot.set_faults()
        with subprocess.Popen([*command, "--seconds", "60"], cwd=root / "deploy", stdout=subprocess.DEVNULL) as loop:
            time.sleep(3.0)
            loop.kill()
        time.sleep(0.5)
        deployed["udp_driver"].connect(robot.address).close()  # a new run ends the former
        report = robot.report()
        if report is not None and report["damping"] == 0:
            break
    assert report["watchdog"] and report["targets"] > 0 and report["damping"] == 0


def test_targets_that_arrive_after_the_stop_start_no_new_run(deployed, policy_file):
    walker = deployed["sim_to_sim"].Walker(mujoco, policy_file)
    robot, joints = deployed["udp_robot"].Robot(walker), len(walker.policy.joint_names)
    content = np.ones(3 * joints, "<f4").tobytes()
    robot.reading()
    robot.follow(5, 1, content)
    assert robot.follows and json.loads(robot.report(7))["targets"] == 1
    robot.follow(6, 1, content)
    assert not robot.follows
    robot.follow(8, 1, content)
    assert robot.follows


def test_program_walks_and_ends_with_its_reason(robot, policy_file, root, tmp_path):
    robot.set_faults()
    command = [sys.executable, "robot_loop.py", str(policy_file), "--driver", "udp_driver", "--address", robot.address]
    done = subprocess.run(
        [*command, "--seconds", "0.2", "--stand_seconds", "0.1", "--log", str(tmp_path / "walk.csv")],
        cwd=root / "deploy",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.startswith("stopped: ") and "'calls': " in done.stdout and done.stderr == ""
    assert done.returncode == (0 if "stopped: the time is over" in done.stdout else 1)
    calls = int(done.stdout.partition("'calls': ")[2].partition(",")[0])
    assert len((tmp_path / "walk.csv").read_text().splitlines()) == 1 + calls
    robot.report()


def test_program_with_the_description_of_another_network_is_one_line(robot, policy_file, root, tmp_path):
    description, _ = onnx_policy.open_onnx(policy_file)
    (tmp_path / "other.json").write_text(json.dumps({**description, "network_sha256": "0" * 64}))
    command = [sys.executable, "robot_loop.py", str(policy_file), "--driver", "udp_driver", "--address", robot.address]
    command += ["--description", str(tmp_path / "other.json")]
    done = subprocess.run(command, cwd=root / "deploy", capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and "other.json describes another network" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_command_that_is_terminated_ends_the_simulated_robot(policy_file, root):
    command = [sys.executable, "-m", "rsl_rl", "sim-robot", str(policy_file), "--port", "0"]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as robot:
        assert robot.stdout.readline().startswith("a simulated robot listens")
        robot.terminate()
        robot.communicate(timeout=20)  # until no process has the pipe open
    assert robot.returncode == 143


SLOW_TO_STOP = """
import time

class Driver:
    def __init__(self, names):
        self.names = names

    def joint_names(self):
        return self.names

    def readings(self):
        zeros = [0.0] * len(self.names)
        return {"time": time.monotonic(), "base_quat": [1.0, 0.0, 0.0, 0.0], "base_ang_vel": [0.0] * 3,
                "base_lin_vel": [0.0] * 3, "joint_pos": zeros, "joint_vel": zeros}

    def hold(self, targets, stiffness, damping):
        print("hold" if any(stiffness) else "damp", flush=True)

    def stop(self):
        print("stop", flush=True)
        time.sleep(1.0)
        print("off", flush=True)

    def close(self):
        print("close", flush=True)

def connect(address):
    return Driver(address.split(","))
"""


def test_program_that_is_interrupted_again_and_again_switches_the_motors_off(policy, policy_file, root, tmp_path):
    (tmp_path / "slow_to_stop.py").write_text(SLOW_TO_STOP)
    command = [sys.executable, str(root / "deploy" / "robot_loop.py"), str(policy_file), "--driver", "slow_to_stop"]
    command += ["--address", ",".join(policy.joint_names)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=tmp_path, text=True, **pipes) as loop:
        assert loop.stdout.readline() == "hold\n"
        loop.send_signal(signal.SIGINT)
        while loop.stdout.readline() != "damp\n":
            pass
        for _ in range(3):
            time.sleep(0.6)
            loop.send_signal(signal.SIGINT)
            loop.send_signal(signal.SIGTERM)
        output, errors = loop.communicate(timeout=20)
    told = [line for line in output.splitlines() if line != "damp"]
    assert errors == "" and loop.returncode == 130
    assert told[:2] == ["stop"] * 2 and told[-4:-2] == ["off", "close"]
    assert told[-2] == "stopped: interrupted; the damping was interrupted"


def test_driver_waits_for_joint_names_that_can_be_read(deployed):
    driver = deployed["udp_driver"]
    for content in (b"", b"{", b"5", b'{"a": 1}', b"[1]", b"\xff", b"[" * 60_000):
        assert driver.read_names(content) == []
    assert driver.read_names(b'["hip", "knee"]') == ["hip", "knee"]


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("x = (", "SyntaxError"),
        ("raise RuntimeError('no')", "RuntimeError: no"),
        ("connect = 5", "has no function connect(address)"),
        ("def connect(address):\n    return None", "it has no joint_names()"),
    ],
)
def test_program_with_a_broken_driver_says_so_in_a_line(policy_file, root, tmp_path, module, message):
    (tmp_path / "broken.py").write_text(module)
    command = [sys.executable, str(root / "deploy" / "robot_loop.py"), str(policy_file), "--driver", "broken"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and message in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--driver", "none_of_mine"), "No module named 'none_of_mine'"),
        (("--driver", "json"), "has no function connect"),
        (("--driver", "."), "TypeError"),
        (("--driver", "udp_driver", "--address", "x" * 300 + ":9"), "robot_loop.py: "),
        (("--driver", "udp_driver", "--address", "robot"), "give host:port"),
        (("--driver", "udp_driver", "--address", "127.0.0.1:9", "--seconds", "-1"), "--seconds -1: give a time"),
    ],
)
def test_program_with_wrong_arguments_says_so_in_a_line(policy_file, root, flags, message):
    command = [sys.executable, "robot_loop.py", str(policy_file), *flags]
    done = subprocess.run(command, cwd=root / "deploy", capture_output=True, text=True, check=False)
    assert done.returncode == 2 and message in done.stderr and len(done.stderr.splitlines()) == 1


def test_robot_with_wrong_arguments_says_so_in_a_line(policy_file, root):
    for flags, message in (
        (("--loss", "2"), "--loss 2"),
        (("--port", "99999999"), "port"),
        (("--model", "no.xml"), "no.xml"),
    ):
        command = [sys.executable, "udp_robot.py", str(policy_file), *flags]
        done = subprocess.run(command, cwd=root / "deploy", capture_output=True, text=True, check=False)
        assert done.returncode == 2 and message in done.stderr and len(done.stderr.splitlines()) == 1
