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
        try:
            return json.loads(self._lines.get(timeout=5))
        except queue.Empty:
            return None


@pytest.fixture(scope="module")
def robot(pytestconfig, policy_file):
    robot = RobotProcess(pytestconfig.rootpath, policy_file)
    yield robot
    robot.close()


def test_robot_ignores_settings_of_the_connection_that_make_no_sense(robot):
    for packet in (b"flaw", b"flaw[1]", b'flaw{"loss": "much"}', b'flaw{"speed": 1}', b"flaw\xff"):
        robot.outside.send(packet)
    robot.set_faults()  # the robot still answers
    assert robot.process.poll() is None


class Sabotage:
    """A driver that lets something go wrong after a number of targets, as an unlucky connection does."""

    def __init__(self, driver, after, strike):
        self.driver, self.left, self.strike = driver, after, strike
        self.joint_names, self.readings, self.stop = driver.joint_names, driver.readings, driver.stop

    def hold(self, targets, stiffness, damping):
        self.driver.hold(targets, stiffness, damping)
        self.left -= 1
        if self.left == 0:
            self.strike()


def run(deployed, robot, policy_file, strike=lambda: None, after=0, seconds=1.0, wait=0.0):
    """Walk, with a fault after some targets, and wait [s] before the connection is good again; return the reason of the
    stop, the loop, and the robot's report."""
    robot.set_faults()
    driver = deployed["udp_driver"].connect(robot.address)
    try:
        policy = onnx_policy.OnnxPolicy(policy_file, driver.joint_names())
        loop = deployed["robot_loop"].ControlLoop(Sabotage(driver, after, strike), policy, damping_seconds=0.1)
        reason = loop.run((0.0, 0.0, 0.0), seconds, stand_seconds=0.1)
        time.sleep(wait)
        robot.set_faults()
        time.sleep(0.01)
        driver.stop()  # again, where the first was lost
        return reason, loop, robot.report()
    finally:
        driver.close()


def test_robot_behind_udp_stands_and_walks_until_the_time_is_over(deployed, robot, policy_file):
    for _ in range(10):
        reason, loop, report = run(deployed, robot, policy_file)
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


def check_fault(deployed, robot, policy_file, kind, size, after):
    """Let the connection fail, and check that the loop stopped with its reason, and what the motors followed."""
    struck = []

    def strike():
        struck.append(kind)
        FAULTS[kind](robot, size)

    wait = 0.5 if kind == "silence" else 0.0  # for the watchdog of the motors
    reason, loop, report = run(deployed, robot, policy_file, strike, after, seconds=1.5, wait=wait)
    assert reason.startswith(("stale reading: the newest is ", "missed deadline: ")) or "none has come" in reason, (
        f"{kind}: {reason}"
    )
    if report is None:  # on a busy machine the run may end before it has begun
        return "not started"
    assert report["targets"] <= loop.num_sent
    assert report["oldest_answer"] <= MAX_SILENCE
    if struck and kind == "silence":
        assert report["targets"] <= after  # nothing came through, and motors that followed a target damped it
        assert report["watchdog"] or report["targets"] == 0
    if struck and kind != "jitter":  # readings were good for 50 ms more
        assert loop.num_sent <= after + 4
    return reason.split(":")[0]


@pytest.mark.parametrize("kind", FAULTS)
def test_connection_that_fails_stops_the_robot_with_a_reason(deployed, robot, policy_file, kind):
    for size, after in ((0.3, 7), (0.6, 20)):
        check_fault(deployed, robot, policy_file, kind, size, after)


@pytest.mark.slow
def test_a_thousand_failures_of_the_connection_stop_the_robot_with_a_reason(deployed, robot, policy_file):
    generator = np.random.default_rng(0)
    reasons = [
        check_fault(
            deployed,
            robot,
            policy_file,
            list(FAULTS)[i % 3],
            generator.uniform(0.25, 0.8),
            int(generator.integers(1, 15)),
        )
        for i in range(1000)
    ]
    assert reasons.count("stale reading") > 500


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


def test_program_walks_and_ends_with_its_reason(robot, policy_file, root):
    robot.set_faults()
    command = [sys.executable, "robot_loop.py", str(policy_file), "--driver", "udp_driver", "--address", robot.address]
    done = subprocess.run(
        [*command, "--seconds", "0.2", "--stand_seconds", "0.1"],
        cwd=root / "deploy",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.startswith("stopped: ") and "'calls': " in done.stdout and done.stderr == ""
    assert done.returncode == (0 if "stopped: the time is over" in done.stdout else 1)
    robot.report()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--driver", "none_of_mine"), "No module named 'none_of_mine'"),
        (("--driver", "json"), "has no function connect"),
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
