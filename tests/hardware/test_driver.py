"""Drivers that fail in every way end with a reason."""

import time

import numpy as np
import pytest

from rsl_rl.hardware.driver import StoppedError, Watched

GOOD = {
    "time": 0.0,
    "joint_pos": [0.1, 0.2],
    "joint_vel": [0.0, 0.0],
    "base_quat": [1.0, 0.0, 0.0, 0.0],
    "base_ang_vel": [0.0, 0.0, 0.0],
}


class Driver:
    def __init__(self, **told):
        self.told = {**GOOD, **told}

    def joint_names(self):
        return ["a", "b"]

    def readings(self):
        return self.told

    def hold(self, *values):
        time.sleep(60)

    def stop(self):
        self.is_off = True


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ({"joint_pos": [0.1]}, "joint_pos=.*give 2 finite numbers"),
        ({"joint_vel": [0.1, np.nan]}, "joint_vel=.*give 2 finite numbers"),
        ({"joint_pos": [0.1 + 1j, 0.0]}, "joint_pos=.*give 2 finite numbers"),
        ({"joint_pos": "much"}, "joint_pos=much; give 2 finite numbers"),
        ({"base_quat": [2.0, 0.0, 0.0, 0.0]}, "is not a unit quaternion"),
        ({"base_ang_vel": None}, "lack base_ang_vel"),
        ({"time": -0.2}, "stale reading: the newest is 200 ms old; at most 100 ms"),
        ({"time": np.nan}, "time=nan; give a finite number"),
    ],
)
def test_reading_that_cannot_be_used_is_told(told, reason):
    with pytest.raises(StoppedError, match=reason):
        Watched(Driver(**told), None).reading(0.0)


def test_readings_that_do_not_change_are_frozen():
    watched = Watched(Driver(), None)
    for now in (0.0, 0.3, 0.5):
        watched._driver.told["time"] = now  # the driver's own time goes on
        watched.reading(now)
    watched._driver.told["time"] = 0.6
    with pytest.raises(StoppedError, match="frozen reading: no number has changed for 500 ms"):
        watched.reading(0.6)


def test_driver_that_hangs_is_told_and_can_still_be_switched_off():
    driver = Driver()
    watched = Watched(driver, timeout=0.2)
    with pytest.raises(StoppedError, match=r"hold\(\) has not returned within 0.2 s"):
        watched.hold(np.zeros(2), np.zeros(2), np.zeros(2))
    watched.stop()
    assert driver.is_off


def test_driver_that_raises_is_told_with_its_error():
    driver = Driver()
    driver.readings = lambda: 1 / 0
    with pytest.raises(StoppedError, match=r"readings\(\) failed: ZeroDivisionError: division by zero"):
        Watched(driver).reading(0.0)


def test_names_that_are_not_different_texts_are_told():
    driver = Driver()
    driver.joint_names = lambda: ["a", "a"]
    with pytest.raises(StoppedError, match="give a list of different names"):
        Watched(driver)


class Interrupting(Driver):
    def stop(self):
        raise KeyboardInterrupt


def test_interrupt_that_a_driver_raises_is_a_reason_to_stop():
    with pytest.raises(StoppedError, match="the driver raised a KeyboardInterrupt"):
        Watched(Interrupting()).stop()
