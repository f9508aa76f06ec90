"""Say what is wrong between a policy and its robot, from a log."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from rsl_rl.evaluation.doctor.finding import BOUNDARIES, Finding
from rsl_rl.evaluation.doctor.log import Log
from rsl_rl.evaluation.doctor.recompute import Network, Runner, findings_of_recompute, recompute
from rsl_rl.evaluation.doctor.replay import HORIZON, Motion, Replay, multiply, rotate_back
from rsl_rl.evaluation.doctor.search import LEAST_STEPS, Verdict, search
from rsl_rl.evaluation.doctor.signals import judge_clipped, judge_stale, judge_time, judge_units, stale_rows

STILL = 0.05
"""Range of 90 % of a joint's positions below which its motion tells nothing [rad]."""


@dataclass(frozen=True)
class Diagnosis:
    """What the doctor says of a log."""

    findings: Tuple[Finding, ...]  # the first boundary first
    notes: Tuple[str, ...]  # on the log, and on what could not be judged

    @property
    def boundary(self) -> str:
        """The first boundary that differs, or "" for a healthy log."""
        return self.findings[0].boundary if self.findings else ""


def diagnose(
    log: Log,
    runner: Runner,
    network: Network,
    description: Mapping[str, Any],
    model_path: Optional[Path],
    model_joints: Sequence[str] = (),
) -> Diagnosis:
    """Return what is wrong in a log of a policy with this description, which maps the robot's joints and IMU.

    ``model_joints`` are the joints of the model in the policy's order, where the robot has other names for them.
    Without a model nothing is said of what only the motion tells.
    """
    notes = list(log.notes)
    period = float(description["control_period"])
    stale = stale_rows(log)
    found = [*judge_time(log, period), *judge_stale(log, stale), *judge_clipped(log), *judge_units(log)]
    expected = recompute(log, runner, network, description)
    found += findings_of_recompute(log, network, description, expected)
    if model_path is None:
        notes.append("the motion is not judged: the policy names no model, or it is not on this machine; give --model")
    elif "base_quat" not in log.readings:
        notes.append("the motion is not judged: the log has no base_quat")
    else:
        verdict, problem = _judge_motion(
            log, stale, description, model_path, model_joints or description["joint_names"]
        )
        if verdict is None:
            notes.append(f"the motion is not judged: {problem}")
        else:
            known = {one.kind for one in verdict.findings}
            found = [one for one in found if not (one.kind == "degrees" and one.kind in known)]
            found += verdict.findings
            notes += _still(log)
    found.sort(key=lambda one: BOUNDARIES.index(one.boundary))
    return Diagnosis(tuple(found), tuple(notes))


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


def _turning(quat: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Return the angular velocity in the base frame of orientations [T, 4]."""
    turn = multiply(quat[:-1] * np.array([1.0, -1, -1, -1]), quat[1:])
    rate = 2.0 * np.sign(turn[:, :1]) * turn[:, 1:] / np.diff(seconds)[:, None]
    return np.concatenate([rate, rate[-1:]]) if len(rate) else np.zeros((len(quat), 3))


def _judge_motion(
    log: Log,
    stale: Mapping[str, np.ndarray],
    description: Mapping[str, Any],
    model_path: Path,
    model_joints: Sequence[str],
) -> Tuple[Optional[Verdict], str]:
    """Return the verdict of the motion, or None and why there is none."""
    motion = motion_of(log, description)
    steps = usable_steps(log, motion, stale)
    if len(steps) < LEAST_STEPS:
        return None, f"{len(steps)} steps are whole, fresh and even in time; {LEAST_STEPS} are needed"
    period = float(np.median(np.diff(log.time)[~log.starts[1:]]))
    replay = Replay(model_path, description, model_joints, period)
    return search(replay, motion, steps, list(description["joint_names"])), ""


def usable_steps(log: Log, motion: Motion, stale: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the rows from which a prediction can start: all rows up to its horizon are finite, fresh, of one episode
    and even in time."""
    good = np.ones(len(log.time), bool)
    for values in vars(motion).values():
        if values is not None:
            good &= np.isfinite(values).all(axis=1)
    for same in stale.values():
        good &= ~same
    periods = np.diff(log.time)
    median = np.median(periods[~log.starts[1:]]) if (~log.starts[1:]).any() else 0.0
    even = ~log.starts[1:] & (np.abs(periods - median) < 0.3 * median)
    steps = [t for t in range(len(good) - HORIZON) if good[t : t + HORIZON + 1].all() and even[t : t + HORIZON].all()]
    return np.array(steps, int)


def _still(log: Log) -> List[str]:
    """Return a note on joints that move too little to tell."""
    low, high = np.nanpercentile(log.readings["joint_pos"], (5, 95), axis=0)
    spread = high - low
    still = [name for name, size in zip(log.joint_names, spread) if size < STILL]
    return [f"not enough motion in {', '.join(still)} to tell signs and order"] if still else []


def fixed_description(description: Mapping[str, Any], findings: Tuple[Finding, ...]) -> Optional[Dict[str, Any]]:
    """Return a description whose mapping undoes the findings that determine it; None if none does."""
    fixed = dict(description)
    fixes = [finding.fix for finding in findings if finding.fix]
    count = len(description["joint_names"])
    for fix in fixes:
        signs = np.array(fixed.get("joint_signs", [1.0] * count))
        zeros = np.array(fixed.get("joint_zeros", [0.0] * count))
        if "permutation" in fix:
            order = np.argsort(fix["permutation"])
            fixed["joint_names"] = [fixed["joint_names"][i] for i in order]
            signs, zeros = signs[order], zeros[order]
        if "signs" in fix:
            signs = signs * np.array(fix["signs"])
        if "zeros" in fix:
            zeros = zeros + signs * np.array(fix["zeros"])
        if "mounting" in fix:
            inverse = np.array(fix["mounting"]) * [1.0, -1, -1, -1]
            before = np.array(fixed.get("imu_mounting", (1.0, 0.0, 0.0, 0.0)))
            fixed["imu_mounting"] = multiply(before, inverse).tolist()
        if "quaternion_order" in fix:
            fixed["quaternion_order"] = fix["quaternion_order"]
        if "units" in fix:
            fixed["units"] = {**fixed.get("units", {}), **fix["units"]}
        fixed["joint_signs"], fixed["joint_zeros"] = signs.tolist(), zeros.tolist()
    return fixed if fixes else None
