"""The motion of a robot from its log, in the units and the order of its policy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Callable, Dict, Mapping, Sequence

import numpy as np

from rsl_rl.evaluation.doctor.finding import Finding
from rsl_rl.evaluation.doctor.log import Log
from rsl_rl.evaluation.doctor.replay import HORIZON, Motion, multiply, rotate_back

BRIDGED = 10
"""Rows in a row in which a sensor that repeats its numbers is replaced by the others."""


FALL = 0.3
"""Time before the end of an episode in which a robot may be falling onto parts that the model does not put on the floor
[s]; episodes of less than four times that are used whole."""


def in_radians(motion: Motion, findings: Sequence[Finding]) -> Motion:
    """Return a motion with the readings in radians that were found to be in degrees."""
    names = [one.sentence.partition(" in degrees")[0] for one in findings]
    return replace(motion, **{name: np.radians(getattr(motion, name)) for name in names if hasattr(motion, name)})


def motion_of(log: Log, description: Mapping[str, Any]) -> Motion:
    """Return the motion of a log, as the policy's description maps its readings."""
    names = list(log.joint_names)
    order = [names.index(name) for name in description["joint_names"]]
    signs = np.array(description.get("joint_signs", 1.0))
    zeros = np.array(description.get("joint_zeros", 0.0))
    mounting = np.array(description.get("imu_mounting", (1.0, 0.0, 0.0, 0.0)))
    readings: Dict[str, np.ndarray] = log.readings
    quat = readings["base_quat"]
    length = np.linalg.norm(quat, axis=1, keepdims=True)
    quat = quat / np.where(length > 0.5, length, np.nan)
    joint_pos = signs * (readings["joint_pos"][:, order] - zeros)
    seconds = log.time
    if "joint_vel" in readings:
        joint_vel = signs * readings["joint_vel"][:, order]
    else:
        joint_vel = np.gradient(joint_pos, seconds, axis=0) if len(seconds) > 1 else np.zeros_like(joint_pos)
    world = readings.get("base_lin_vel_world")
    quat = multiply(quat, mounting)
    gyro = readings.get("base_ang_vel")
    ang_vel = _turning(quat, seconds) if gyro is None else rotate_back(mounting, gyro)
    lin_vel = readings.get("base_lin_vel", None if world is None else rotate_back(quat, world))
    return Motion(quat, ang_vel, lin_vel, joint_pos, joint_vel, signs * (log.target[:, order] - zeros))


def without_stale(motion: Motion, stale: Mapping[str, np.ndarray], log: Log, joint_names: Sequence[str]) -> Motion:
    """Return a motion in which repeated numbers of a sensor are replaced by what the other sensors say: velocities by
    the derivative of positions, and positions by the integral of velocities, NaN after more than ``BRIDGED`` rows."""
    rows = len(log.time)
    groups = {name.partition(".")[0] for name in stale}

    def columns(group: str) -> np.ndarray:
        """Return which numbers of the joints repeat, [T, J]."""
        parts = [stale.get(group, stale.get(f"{group}.{name}", np.zeros(rows, bool))) for name in joint_names]
        return np.stack(parts, axis=1)

    if groups & {"joint_pos", "joint_vel"}:
        pos, vel = motion.joint_pos.copy(), motion.joint_vel.copy()
        old_pos, old_vel = columns("joint_pos"), columns("joint_vel")
        vel = np.where(old_vel & ~old_pos, np.gradient(pos, log.time, axis=0), vel)
        moved = _bridged(pos, old_pos, lambda t, x: x + vel[t - 1] * (log.time[t] - log.time[t - 1]))
        motion = replace(motion, joint_pos=moved, joint_vel=np.where(old_vel & old_pos, np.nan, vel))
    if "base_lin_vel" in groups or "base_lin_vel_world" in groups:
        motion = replace(motion, base_lin_vel=None)
    old_quat, old_gyro = (stale.get(name, np.zeros(rows, bool)) for name in ("base_quat", "base_ang_vel"))
    if old_gyro.any() and not old_quat.any():
        motion = replace(motion, base_ang_vel=_turning(motion.base_quat, log.time))
    elif old_quat.any():
        gyro = np.where(old_gyro[:, None], np.nan, motion.base_ang_vel)

        def turn(t: int, quat: np.ndarray) -> np.ndarray:
            half = 0.5 * gyro[t - 1] * (log.time[t] - log.time[t - 1])
            quat = multiply(quat, np.array([1.0, *half]))
            return quat / np.linalg.norm(quat)

        old = np.repeat(old_quat[:, None], 4, axis=1)
        motion = replace(motion, base_quat=_bridged(motion.base_quat, old, turn), base_ang_vel=gyro)
    return motion


def _bridged(values: np.ndarray, old: np.ndarray, following: Callable[[int, np.ndarray], np.ndarray]) -> np.ndarray:
    """Return values [T, k] with each old number replaced by what follows from the row before."""
    out, age = values.copy(), np.zeros(values.shape[1], int)
    for t in range(1, len(out)):
        age = np.where(old[t], age + 1, 0)
        if old[t].any():
            out[t] = np.where(age > BRIDGED, np.nan, np.where(old[t], following(t, out[t - 1]), values[t]))
    return out


def _turning(quat: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Return the angular velocity in the base frame of orientations [T, 4]."""
    turn = multiply(quat[:-1] * np.array([1.0, -1, -1, -1]), quat[1:])
    rate = 2.0 * np.sign(turn[:, :1]) * turn[:, 1:] / np.diff(seconds)[:, None]
    return np.concatenate([rate, rate[-1:]]) if len(rate) else np.zeros((len(quat), 3))


def usable_steps(log: Log, motion: Motion) -> np.ndarray:
    """Return the rows from which a prediction can start: all rows up to its horizon are finite, of one episode, even in
    time and before a fall at the end of the episode."""
    good = np.ones(len(log.time), bool)
    for values in vars(motion).values():
        if values is not None:
            good &= np.isfinite(values).all(axis=1)
    periods = np.diff(log.time)
    median = np.median(periods[~log.starts[1:]]) if (~log.starts[1:]).any() else 0.0
    even = ~log.starts[1:] & (np.abs(periods - median) < 0.3 * median)
    ends = np.flatnonzero(np.append(log.starts[1:], True))  # last row of each episode
    for first, last in zip([0, *(ends[:-1] + 1)], ends):
        if log.time[last] - log.time[first] >= 4 * FALL:
            good[first : last + 1] &= log.time[first : last + 1] < log.time[last] - FALL
    steps = [t for t in range(len(good) - HORIZON) if good[t : t + HORIZON + 1].all() and even[t : t + HORIZON].all()]
    return np.array(steps, int)
