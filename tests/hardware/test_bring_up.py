"""A bring-up of simulated robots on a stand, in one process."""

import sys
from dataclasses import replace

import pytest

from benchmarks.bring_up import SimulatedDriver, bring_up, deployed, describe, errors_of
from rsl_rl.hardware.bring_up_report import lines, report_html, robot_yaml
from rsl_rl.hardware.driver import StoppedError
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


def draw(wired, seed, **changes):
    description = describe(GO2)
    return replace(wired.draw_wiring(description["joint_names"], description["torque_limits"], seed), **changes)


def test_wiring_of_a_go2_is_found_and_written_within_the_torque_share(wired):
    wiring = draw(wired, 11)
    run, robot = bring_up(GO2, wiring)
    told = errors_of(run, wiring)
    assert told["complete"] and told["right"], told
    assert run.found.seconds <= 90
    assert 0.02 < robot.largest_share.max() <= 0.15
    assert run.delay == pytest.approx(wiring.reading_delay + wiring.target_delay, abs=0.015)
    from deploy.onnx_policy import with_robot  # the file is read by the program on the robot

    yaml = robot_yaml(run.found, "go2")
    assert b'"format": 1' in yaml and all(name.encode() in yaml for name in wiring.joints)
    assert "torques of the front left limb" in report_html("go2", run.found)
    assert len(lines(run.found)) >= 13 and with_robot is not None


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


def test_readings_that_freeze_stop_the_motors(wired):
    with pytest.raises(StoppedError, match="frozen reading"):
        bring_up(GO2, draw(wired, 5, freezes_at=4.0))


class Interrupted(SimulatedDriver):
    """A robot whose user presses Ctrl-C; it keeps what it was sent after that."""

    last = None
    is_off = False

    def hold(self, targets, stiffness, damping):
        super().hold(targets, stiffness, damping)
        Interrupted.last = stiffness
        if 3.0 < self.clock() < 3.015:
            raise KeyboardInterrupt

    def stop(self):
        super().stop()
        Interrupted.is_off = True


def test_interrupted_robot_is_damped_and_switched_off(wired):
    with pytest.raises(KeyboardInterrupt):
        bring_up(GO2, draw(wired, 5), driver_class=Interrupted)
    assert Interrupted.is_off and Interrupted.last is not None and not Interrupted.last.any()


def test_contract_of_another_robot_is_told(wired):
    from rsl_rl.hardware.bring_up import BringUp
    from rsl_rl.hardware.driver import Watched
    from rsl_rl.hardware.limbs import read_limbs
    from rsl_rl.hardware.session import Session

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
