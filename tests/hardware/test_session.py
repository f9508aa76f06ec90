"""No motor gets more than the torque share, also after a hand has moved its joint."""

import numpy as np
import pytest

from rsl_rl.hardware.driver import StoppedError, Watched
from rsl_rl.hardware.session import PERIOD, STRONGER, Session

TORQUE, DELAY = 3.0, 0.06


class Moved:
    """A driver of one joint that moves along a path; its readings and targets are late, and it keeps the largest torque
    that its motor gives."""

    def __init__(self, path):
        self._path, self._now, self.largest = path, 0.0, 0.0
        self._sent = [(0.0, np.zeros(1), np.zeros(1), np.zeros(1))]

    def clock(self):
        return self._now

    def sleep(self, seconds):
        for _ in range(round(seconds / PERIOD)):
            for _ in range(10):
                _, target, stiffness, damping = [one for one in self._sent if one[0] <= self._now + 1e-9][-1]
                speed = (self._path(self._now + 1e-4) - self._path(self._now)) / 1e-4
                torque = stiffness * (target - self._path(self._now)) - damping * speed
                self.largest = max(self.largest, STRONGER * float(np.abs(torque).max()))
                self._now += PERIOD / 10

    def joint_names(self):
        return ["knee"]

    def readings(self):
        pos = self._path(self._now - DELAY / 2)
        return {
            "time": self._now,
            "joint_pos": [pos],
            "joint_vel": [0.0],
            "base_quat": [1, 0, 0, 0],
            "base_ang_vel": [self._now, 0, 0],
        }

    def hold(self, targets, stiffness, damping):
        self._sent.append((self._now + DELAY / 2, targets, stiffness, damping))

    def stop(self):
        pass


def begun(path):
    driver = Moved(path)
    session = Session(Watched(driver, None), TORQUE, 1.0, driver.clock, driver.sleep)
    session.begin()
    return driver, session


@pytest.mark.parametrize("speed", [1.9, -1.9])
@pytest.mark.parametrize("wanted", [5.0, -5.0])
def test_joint_that_a_hand_moves_suddenly_gets_no_more_than_the_share(speed, wanted):
    driver, session = begun(lambda now: speed * max(0.0, now - 0.5))
    for _ in range(100):
        session.step(np.array([wanted]), session.kp_work)
    assert 0.6 * TORQUE < driver.largest <= TORQUE


def test_motor_gets_the_share_of_its_own_joint_once_that_is_known():
    driver, session = begun(lambda now: 0.0)
    session.set_torques(np.array([2.5 * TORQUE]))
    for _ in range(50):
        session.step(np.array([5.0]), session.kp_work)
    session.send(np.array([30.0]), session.kp_work)
    session.damp(0.1)
    assert 2.0 * TORQUE < driver.largest <= 2.5 * TORQUE


def test_targets_far_from_the_reading_get_no_more_than_the_share():
    driver, session = begun(lambda now: 0.0)
    for target in (0.5, 3.0, 30.0):
        session.send(np.array([target]), session.kp_work)
    for _ in range(10):
        session.damp(PERIOD)
    assert 0.8 * TORQUE < driver.largest <= TORQUE


def test_limb_that_swings_in_the_hands_is_damped_within_the_share():
    driver, session = begun(lambda now: 0.3 * np.sin(300.0 * max(0.0, now - 0.2)))  # up to 90 rad/s
    session.by_hand = True
    session.damp(0.5)
    assert 0.2 * TORQUE < driver.largest <= TORQUE


@pytest.mark.parametrize("speed", [0.0, 25.0])
def test_joint_is_damped_within_the_share_after_a_stop(speed):
    driver, session = begun(lambda now: speed * max(0.0, now - 0.1))
    session.damp(0.05)
    assert session.end() == "" and driver.largest <= TORQUE
    assert driver.largest > 0.7 * TORQUE or not speed


def test_time_without_a_message_stops_as_motors_may_have_a_watchdog():
    driver, session = begun(lambda now: 0.0)
    session.damp(0.05)
    driver.sleep(0.2)
    with pytest.raises(StoppedError, match="nothing was sent for 210 ms, and the motors may follow no more"):
        session.damp(0.05)


def test_torque_share_is_kept_by_a_joint_that_falls_while_the_program_computes():
    driver, session = begun(lambda now: 4.0 * max(0.0, now - 0.2))
    for _ in range(15):
        session.send(session.pos, 0.0)
    for _ in range(20):
        session.damp_without_reading()
    session.resume()
    for _ in range(10):
        session.step(session.pos - 5.0, session.kp_work)
    assert driver.largest <= TORQUE
