"""Find how the IMU of a robot is mounted, and what its numbers mean, from a trunk that is turned by hand."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import List, Mapping, Optional, Tuple

import numpy as np

ORDERS = {"wxyz": (0, 1, 2, 3), "xyzw": (3, 0, 1, 2)}
CLEAR_RATIO = 2.0
"""Ratio of mean squared errors from which one meaning of the numbers is clear."""


@dataclass(frozen=True)
class Imu:
    """The meaning of the IMU's numbers."""

    quaternion_order: str
    mounting: np.ndarray  # [3, 3] turns vectors of the base frame into the frame of the IMU
    unit: str
    """Of the angular velocity."""
    spread: float
    """Largest angle between the forward directions of one turn and of all [rad]."""

    def gravity(self, quats: np.ndarray) -> np.ndarray:
        """Return the direction of gravity in the base frame [T, 3] of readings [T, 4]."""
        return -to_matrices(quats[:, ORDERS[self.quaternion_order]])[:, 2] @ self.mounting


SIDES = {"nose": (0, 1.0), "tail": (0, -1.0), "right side": (1, -1.0), "left side": (1, 1.0)}
"""Axis of the base frame, and direction, along which gravity has a part when a side of the trunk is down."""


def find_imu(
    quats: np.ndarray, gyro: np.ndarray, period: float, level: np.ndarray, down: Mapping[str, np.ndarray]
) -> Tuple[Optional[Imu], List[str]]:
    """Return the IMU's mounting and problems.

    ``quats`` [T, 4] and ``gyro`` [T, 3] are readings while the trunk turns, ``level`` [4] the mean one with the trunk
    level, ``down`` those with each side of SIDES down.
    """
    meanings = _meanings(quats, gyro, period)
    best, second = meanings[0], meanings[1]
    problems = []
    if second.error / max(best.error, 1e-12) < CLEAR_RATIO:
        problems.append(f"base_quat and base_ang_vel do not fit each other: {best} or {second}?")
    elif best.explained < 0.5:
        problems.append(
            "base_quat and base_ang_vel do not fit each other: the axes of one are turned, or one is of another sensor"
        )
    elif best.inverse:
        problems.append("base_quat is the inverse orientation, world to base: give that from base to world")
    elif best.in_world:
        problems.append("base_ang_vel is in the world frame: give it in the frame of the IMU")
    if problems:
        return None, problems
    order = list(ORDERS[best.order])
    z = to_matrices(np.asarray(level)[order][None])[0, 2]  # upwards
    sides = {name: -to_matrices(np.asarray(quat)[order][None])[0, 2] for name, quat in down.items()}
    forwards = []  # the direction +x by each turn
    for name, (axis, sign) in SIDES.items():
        part = sign * _across(sides[name], z)
        forwards.append(part if axis == 0 else np.cross(part, z))
    mean = np.mean(forwards, axis=0)
    agreements = [float(one @ mean) / max(float(np.linalg.norm(mean)), 1e-9) for one in forwards]
    if min(agreements) < 0.8:
        odd = list(SIDES)[int(np.argmin(agreements))]
        problems.append(
            f"the turns of the trunk disagree: was it the {', the '.join(SIDES)}, in this order? (first: {odd})"
        )
        return None, problems
    x = mean / np.linalg.norm(mean)
    mounting = np.stack([x, np.cross(z, x), z], axis=1)
    return Imu(best.order, mounting, best.unit, math.acos(min(1.0, min(agreements)))), problems


def _across(vector: np.ndarray, axis: np.ndarray) -> np.ndarray:
    """Return the direction of a vector's part across an axis."""
    part = vector - axis * (axis @ vector)
    return part / max(float(np.linalg.norm(part)), 1e-9)


@dataclass(frozen=True)
class _Meaning:
    order: str
    inverse: bool
    in_world: bool
    unit: str
    error: float
    explained: float

    def __str__(self) -> str:
        inverse, frame = ", inverse" * self.inverse, " in the world frame" * self.in_world
        return f"{self.order}{inverse} with {self.unit}{frame}"


def _meanings(quats: np.ndarray, gyro: np.ndarray, period: float) -> List[_Meaning]:
    """Return what the numbers may mean, the best first: the change of the orientation is compared with the angular
    velocity over tenths of a second."""
    wide, mean = max(1, round(0.1 / period)), max(1, round(0.05 / period))
    kernel = np.ones(wide) / wide
    rates = np.stack([np.convolve(column, kernel, mode="valid") for column in gyro.T], axis=1)
    size = np.linalg.norm(rates, axis=1)
    turning = np.flatnonzero(size > 0.3 * np.quantile(size, 0.995))[::2]
    turning = turning[turning < len(quats) - wide - mean]
    found = []
    for (order, rows), inverse in itertools.product(ORDERS.items(), (False, True)):
        first, second = (
            _means(quats[:, rows], turning + shift, mean) for shift in (-mean // 2 + 1, wide - mean // 2 + 1)
        )
        before, after = to_matrices(first), to_matrices(second)
        if inverse:
            before, after = before.transpose(0, 2, 1), after.transpose(0, 2, 1)
        rate = _vectors(before.transpose(0, 2, 1) @ after) / (wide * period)
        in_world = np.einsum("tij,tj->ti", before, rate)
        for frame, (unit, factor) in itertools.product((False, True), (("rad/s", 1.0), ("deg/s", math.pi / 180))):
            expected, scale = (in_world if frame else rate), (1.0 if unit == "rad/s" else 1 / factor)
            error = float(((rates[turning] / scale - expected) ** 2).mean())
            found.append(_Meaning(order, inverse, frame, unit, error, 1 - error / float((expected**2).mean() + 1e-12)))
    return sorted(found, key=lambda one: one.error)


def _means(quats: np.ndarray, starts: np.ndarray, count: int) -> np.ndarray:
    """Return means of ``count`` successive quaternions from each start; -q is the same orientation as q."""
    rows = np.clip(starts[:, None] + np.arange(count), 0, len(quats) - 1)
    chosen = quats[rows]  # [S, count, 4]
    chosen = chosen * np.where((chosen * chosen[:, :1]).sum(axis=2, keepdims=True) < 0, -1.0, 1.0)
    return chosen.mean(axis=1)


def to_matrices(quats: np.ndarray) -> np.ndarray:
    """Return rotation matrices [T, 3, 3] of quaternions w x y z [T, 4]."""
    w, x, y, z = (quats / np.linalg.norm(quats, axis=1, keepdims=True)).T
    rows = (
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def _vectors(matrices: np.ndarray) -> np.ndarray:
    """Return rotation vectors [T, 3] of small rotations [T, 3, 3]."""
    skew = matrices - matrices.transpose(0, 2, 1)
    sine = np.stack([skew[:, 2, 1], skew[:, 0, 2], skew[:, 1, 0]], axis=1) / 2
    length = np.linalg.norm(sine, axis=1, keepdims=True)
    return sine * np.where(length > 1e-9, np.arcsin(np.minimum(length, 1.0)) / np.maximum(length, 1e-9), 1.0)


def to_quaternion(matrix: np.ndarray) -> np.ndarray:
    """Return the quaternion w x y z of a rotation matrix: the eigenvector of a symmetric matrix (Bar-Itzhack 2000)."""
    (a, b, c), (d, e, f), (g, h, i) = matrix
    sums = [
        [a + e + i, h - f, c - g, d - b],
        [h - f, a - e - i, b + d, c + g],
        [c - g, b + d, e - a - i, f + h],
        [d - b, c + g, f + h, i - a - e],
    ]
    vector = np.linalg.eigh(np.array(sums))[1][:, -1]
    return vector if vector[0] >= 0 else -vector
