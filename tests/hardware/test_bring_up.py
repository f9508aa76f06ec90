"""A bring-up of simulated robots on a stand, in one process."""

import sys
from dataclasses import replace

import pytest

import rsl_rl.hardware.bring_up as bring_up_module
from benchmarks.bring_up import SimulatedDriver, bring_up, deployed, describe, errors_of
from rsl_rl.hardware.bring_up import BringUp
from rsl_rl.hardware.bring_up_report import lines, report_html, robot_yaml
from rsl_rl.hardware.driver import StoppedError, Watched
from rsl_rl.hardware.limbs import read_limbs
from rsl_rl.hardware.session import UNITS, Session
from rsl_rl.robots import ROBOTS

GO2 = ROBOTS.load("go2").model_path


@pytest.fixture(scope="module")
def wired():
    """The module of the simulated robot; deploy/ is on the path as on a robot."""
    before = set(sys.modules)
    yield deployed("wired_robot")
    for name in {"wired_robot", "sim_to_sim", "onnx_policy"} - before:
        sys.modules.pop(name, None)
    sys.path[:] = [folder for folder in sys.path if not folder.endswith("deploy")]


def draw(wired, seed, path=GO2, **changes):
    description = describe(path)
    return replace(wired.draw_wiring(description["joint_names"], description["torque_limits"], seed), **changes)


def test_wiring_of_a_go2_is_found_and_written_within_the_torque_share(wired, tmp_path):
    wiring = draw(wired, 11)
    run, robot = bring_up(GO2, wiring)
    told = errors_of(run, wiring)
    assert told["complete"] and told["right"], told
    assert run.found.seconds <= 90
    assert 0.02 < robot.largest_share.max() <= 0.15
    assert run.found.delay == pytest.approx(wiring.reading_delay + wiring.target_delay, abs=0.015)
    path = tmp_path / "robot.yaml"
    path.write_bytes(robot_yaml(run.found, "go2"))
    description = describe(GO2)  # the file is read by the program on the robot
    mapped, joints = deployed("onnx_policy").with_robot(description, path, robot.policy.joint_names)
    assert joints == list(wiring.joints)
    own = [joints.index(name) for name in description["joint_names"]]
    assert mapped["joint_signs"] == [wiring.signs[i] for i in own]
    assert mapped["joint_zeros"] == pytest.approx([wiring.zeros[i] for i in own], abs=0.06)
    with pytest.raises(ValueError, match="is of the robot go2; the policy is of h1"):
        deployed("onnx_policy").with_robot({**description, "robot": "h1"}, path)
    assert "torques of the front left limb" in report_html("go2", run.found)
    assert len(lines(run.found)) >= 13


@pytest.mark.slow
@pytest.mark.parametrize(("robot", "seed"), [("g1", 300), ("h1", 307)])
def test_wiring_of_a_robot_with_heavy_legs_is_found_within_the_torque_share(wired, robot, seed):
    """Gravity hardly turns the hip yaw of a hanging G1; the hip of this H1 swings after each push."""
    path = ROBOTS.load(robot).model_path
    wiring = draw(wired, seed, path)
    run, walker = bring_up(path, wiring)
    told = errors_of(run, wiring)
    assert told["complete"] and told["right"], told
    assert run.found.seconds <= 90 and 0.05 < walker.largest_share.max() <= 0.15


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        ({"dead": (3,)}, "its motor moves no joint"),
        ({"swapped": ((2, 7),)}, "the motors are swapped"),
        ({"flipped": (5,)}, "its reading turns the other way than its target"),
    ],
)
def test_motor_that_is_wired_apart_from_its_reading_is_named(wired, fault, problem):
    run, robot = bring_up(GO2, draw(wired, 5, **fault))
    assert any(problem in text for text in run.found.problems), run.found.problems
    assert not run.found.is_complete
    assert robot.largest_share.max() <= 0.15
    with pytest.raises(ValueError, match="not determined"):
        robot_yaml(run.found, "go2")


def test_swapped_motors_with_readings_far_apart_get_no_more_than_the_share(wired):
    wiring = draw(wired, 5)
    zeros = list(wiring.zeros)
    zeros[2], zeros[7] = 2.5, -2.5
    run, robot = bring_up(GO2, replace(wiring, zeros=tuple(zeros), swapped=((2, 7),)))
    assert any("the motors are swapped" in text for text in run.found.problems)
    assert robot.largest_share.max() <= 0.15


class Recorded(SimulatedDriver):
    """A robot that keeps what it was sent, and whether it is off."""

    newest = None

    def __init__(self, walker):
        super().__init__(walker)
        self.walker, self.sent, self.is_off = walker, [], False
        Recorded.newest = self

    def hold(self, targets, stiffness, damping):
        super().hold(targets, stiffness, damping)
        self.sent.append((stiffness, damping))

    def stop(self):
        super().stop()
        self.is_off = True


@pytest.mark.parametrize(
    ("unit", "zero", "reason"),
    [("rad", 9.0, "give --unit deg if the driver's angles are degrees"), ("deg", 0.0, "leave --unit deg out")],
)
def test_angles_of_another_unit_than_given_move_nothing(wired, monkeypatch, unit, zero, reason):
    wiring = draw(wired, 5)
    monkeypatch.setattr("benchmarks.bring_up.unit_of", lambda wiring: UNITS[unit])
    with pytest.raises(StoppedError, match=reason):
        bring_up(GO2, replace(wiring, zeros=(zero, *wiring.zeros[1:])), driver_class=Recorded)
    robot = Recorded.newest
    assert robot.is_off and not robot.sent and robot.walker.largest_share.max() <= 0.15


def test_robot_in_degrees_is_pushed_within_the_torque_share(wired):
    units = {"joint_pos": "deg", "joint_vel": "deg/s", "base_ang_vel": "deg/s"}
    run, robot = bring_up(GO2, draw(wired, 5, units=units, dead=(3,)))
    assert [text.split(":")[0] for text in run.found.problems] == [run.found.channels[3].name]
    assert run.found.units["joint_pos"] == "deg" and 0.02 < robot.largest_share.max() <= 0.15


def test_readings_that_freeze_damp_and_stop_the_motors(wired):
    with pytest.raises(StoppedError, match="frozen reading"):
        bring_up(GO2, draw(wired, 5, freezes_at=4.0), driver_class=Recorded)
    robot = Recorded.newest
    stiffness, damping = robot.sent[-1]
    assert robot.is_off and not stiffness.any() and damping.all() and robot.sent[0][0].any()


def test_joints_are_damped_while_the_program_computes(wired, monkeypatch):
    computing = []

    def compute(function):
        computing.append(function)
        result = function()
        computing.pop()
        return result

    def watched(owner, name):
        original, called = getattr(owner, name), []
        monkeypatch.setattr(owner, name, lambda *args: (called.append(bool(computing)), original(*args))[1])
        return called

    slow = [
        watched(bring_up_module, "find_delays"),
        watched(bring_up_module.imus, "find_imu"),
        watched(bring_up_module.LimbSearch, "search"),
        watched(bring_up_module.LimbSearch, "refit"),
        watched(bring_up_module.BringUp, "samples"),
    ]
    monkeypatch.setattr("benchmarks.bring_up.BringUp", lambda *args, **named: BringUp(*args, compute=compute, **named))
    bring_up(GO2, draw(wired, 1))
    for called in slow:
        assert called and all(called), called


class Slow(SimulatedDriver):
    def sleep(self, seconds):
        super().sleep(0.02)


def test_loop_that_is_too_slow_is_told(wired):
    run, _ = bring_up(GO2, draw(wired, 5, dead=(3,)), driver_class=Slow)
    assert any("the loop ran once in" in text and "instead of 10 ms" in text for text in run.found.problems)


def test_limbs_that_share_a_joint_are_told(wired):
    session = Session(Watched(Twelve(), None), 1.0, 0.5, lambda: 0.0, lambda seconds: None)
    limbs = read_limbs(GO2, describe(GO2)["joint_names"])
    waist = replace(limbs, parents=tuple(0 if parent < 0 and i else parent for i, parent in enumerate(limbs.parents)))
    with pytest.raises(StoppedError, match="limbs that share a joint, such as a waist, are not supported"):
        BringUp(session, waist, lambda request: None).run()


class Twelve:
    """A driver whose motors are switched off by the last of several tries; each before is interrupted."""

    interrupts = 0

    def joint_names(self):
        return [f"m{i}" for i in range(12)]

    def stop(self):
        self.interrupts -= 1
        if self.interrupts >= 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize(("interrupts", "told"), [(0, ""), (5, ""), (500, "not be switched off: interrupted")])
def test_interrupts_do_not_keep_the_motors_on(interrupts, told):
    driver = Twelve()
    driver.interrupts = interrupts
    problem = Session(Watched(driver, None), 1.0, 0.5, lambda: 0.0, lambda seconds: None).end()
    assert problem.endswith(told) and bool(problem) == bool(told)


def test_contract_of_another_robot_is_told(wired):
    robot = wired.WiredWalker(sys.modules["mujoco"], (describe(GO2), None), wired.Wiring(), GO2, stand=True)
    driver = SimulatedDriver(robot)
    h1 = ROBOTS.load("h1").model_path
    run = BringUp(
        Session(Watched(driver, None), 1.0, 0.5, driver.clock, driver.sleep),
        read_limbs(h1, describe(h1)["joint_names"]),
        lambda request: None,
    )
    with pytest.raises(StoppedError, match="12 joints, the contract 10: another robot"):
        run.run()
