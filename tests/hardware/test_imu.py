"""The mounting of an IMU, from readings of a trunk whose motion is known."""

import numpy as np
import pytest

from rsl_rl.hardware.imu import SIDES, find_imu, to_matrices, to_quaternion

PERIOD = 0.01


def about(axis, angles):
    """Quaternions [T, 4] about an axis."""
    axis = np.array(axis, float)
    return np.concatenate([np.cos(angles / 2)[:, None], np.sin(angles / 2)[:, None] * axis], axis=1)


def product(a, b):
    w, v, u, x = a[:, :1], a[:, 1:], b[:, :1], b[:, 1:]
    return np.concatenate([w * u - (v * x).sum(1, keepdims=True), w * x + u * v + np.cross(v, x)], axis=1)


def turned(mounting, rng):
    """Readings of a trunk that is turned to each side and to the left: quaternions, angular velocities, mean
    orientations level and with each side down."""
    sway = np.concatenate([np.linspace(0, 0.5, 50), np.full(50, 0.5), np.linspace(0.5, 0, 50)])
    sides = {"nose": (0, 1, 0), "tail": (0, -1, 0), "right side": (1, 0, 0), "left side": (-1, 0, 0)}
    base = np.concatenate([about(axis, sway) for axis in (*sides.values(), (0, 0, 1))])
    quats = product(base, np.repeat(mounting[None] * (1, -1, -1, -1), len(base), axis=0))
    change = product(quats[:-1] * (1, -1, -1, -1), quats[1:])
    gyro = np.append(2 * change[:, 1:] * np.sign(change[:, :1]) / PERIOD, np.zeros((1, 3)), axis=0)
    middle = {side: quats[150 * i + 75] for i, side in enumerate(sides)}
    noise = rng.normal(0, 0.004, quats.shape)
    return quats + noise, gyro + rng.normal(0, 0.05, gyro.shape), quats[0], middle


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("order", ["wxyz", "xyzw"])
def test_any_mounting_is_found(seed, order):
    rng = np.random.default_rng(seed)
    mounting = rng.normal(size=4)
    mounting /= np.linalg.norm(mounting)
    quats, gyro, level, down = turned(mounting, rng)
    rows = [0, 1, 2, 3] if order == "wxyz" else [1, 2, 3, 0]
    imu, problems = find_imu(
        quats[:, rows], np.degrees(gyro), PERIOD, level[rows], {side: quat[rows] for side, quat in down.items()}
    )
    assert problems == [] and imu is not None
    assert (imu.quaternion_order, imu.unit) == (order, "deg/s")
    assert abs(to_quaternion(imu.mounting) @ mounting) > np.cos(np.radians(1) / 2)


def askew(seed=0):
    mounting = np.array([0.9, 0.3, -0.2, 0.25])
    return turned(mounting / np.linalg.norm(mounting), np.random.default_rng(seed))


def test_inverse_quaternion_is_told():
    quats, gyro, level, down = askew()
    inverse = np.array([1, -1, -1, -1])
    _, problems = find_imu(quats * inverse, gyro, PERIOD, level * inverse, {s: q * inverse for s, q in down.items()})
    assert "inverse orientation" in problems[0]


def test_angular_velocity_in_the_world_is_told():
    quats, gyro, level, down = askew()
    in_world = np.einsum("tij,tj->ti", to_matrices(quats), gyro)
    assert "world frame" in find_imu(quats, in_world, PERIOD, level, down)[1][0]


def test_gyro_with_other_axes_is_told():
    quats, gyro, level, down = askew()
    assert "do not fit each other" in find_imu(quats, gyro[:, [1, 2, 0]], PERIOD, level, down)[1][0]


def test_turns_in_another_order_are_told():
    quats, gyro, level, down = askew()
    other = dict(zip(SIDES, (down["tail"], *list(down.values())[1:])))
    assert "the turns of the trunk disagree" in find_imu(quats, gyro, PERIOD, level, other)[1][0]
