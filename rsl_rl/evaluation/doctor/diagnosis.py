"""Say what is wrong between a policy and its robot, from a log."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from rsl_rl.evaluation.doctor.differences import REFUSED, findings_of_recompute
from rsl_rl.evaluation.doctor.finding import BOUNDARIES, Finding
from rsl_rl.evaluation.doctor.log import Log
from rsl_rl.evaluation.doctor.motion import in_radians, motion_of, usable_steps, without_stale
from rsl_rl.evaluation.doctor.recompute import Network, Runner, recompute
from rsl_rl.evaluation.doctor.replay import Motion, Replay, multiply
from rsl_rl.evaluation.doctor.search import LEAST_STEPS, Verdict, moves, search
from rsl_rl.evaluation.doctor.signals import check_rows, judge_clipped, judge_stale, judge_time, judge_units, stale_rows

STILL = 0.05
"""Range of 90 % of a joint's positions below which its motion tells nothing [rad]."""


MOST_OFF = 4.0
"""Largest factor between the period of a log and the policy's with which the motion is simulated."""

LEAST_DECIMALS = 4
"""Decimals of a log whose observations are computed again."""


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
    Without a model nothing is said of what only the motion tells. A log of another rate than the control loop's is a
    ValueError.
    """
    check_rows(log, float(description["control_period"]))
    notes = list(log.notes)
    stale, units = stale_rows(log), list(judge_units(log, description))
    found = [*judge_time(log, float(description["control_period"])), *judge_stale(log, stale), *judge_clipped(log)]
    found += units
    if decimals(log) < LEAST_DECIMALS:
        notes.append(f"the numbers have less than {LEAST_DECIMALS} decimals: observations and actions are not judged")
    else:
        expected = recompute(log, runner, network, description)
        notes += expected.notes
        found += findings_of_recompute(log, network, description, expected)
    if model_path is None:
        notes.append("the motion is not judged: the policy names no model, or it is not on this machine; give --model")
    elif "base_quat" not in log.readings:
        notes.append("the motion is not judged: the log has no base_quat")
    else:
        motion = in_radians(motion_of(log, description), units)
        motion = without_stale(motion, stale, log, description["joint_names"])
        verdict, problem = _judge_motion(log, motion, description, model_path, model_joints)
        if verdict is None:
            notes.append(f"the motion is not judged: {problem}")
        elif verdict.is_explained or all(one.kind == REFUSED for one in found):
            found += verdict.findings
            notes += _still(log)
            if not moves(motion, usable_steps(log, motion)):
                notes.append("not enough motion to tell the damping of the joints")
        else:
            notes.append("the motion is not explained; mend what is found, and log again")
    found.sort(key=lambda one: BOUNDARIES.index(one.boundary))
    return Diagnosis(tuple(_causes(found)), tuple(notes))


def decimals(log: Log) -> int:
    """Return how many decimals the joint positions of a log have, 9 at most."""
    some = log.readings["joint_pos"][:100]
    some = some[np.isfinite(some)]
    return next((k for k in range(9) if (np.abs(some * 10**k - np.round(some * 10**k)) < 1e-6).all()), 9)


def _causes(found: Sequence[Finding]) -> List[Finding]:
    """Return findings without those that only follow from others: readings that the policy refuses."""
    causes = [one for one in found if one.kind != REFUSED]
    return causes if any(one.boundary == "reading" for one in causes) else list(found)


def _judge_motion(
    log: Log, motion: Motion, description: Mapping[str, Any], model_path: Path, model_joints: Sequence[str]
) -> Tuple[Optional[Verdict], str]:
    """Return the verdict of the motion, or None and why there is none."""
    names = list(description["joint_names"])
    steps = usable_steps(log, motion)
    if len(steps) < LEAST_STEPS:
        return None, f"{len(steps)} steps are whole, fresh and even in time; {LEAST_STEPS} are needed"
    period, wanted = float(np.median(np.diff(log.time)[~log.starts[1:]])), float(description["control_period"])
    if not 1 / MOST_OFF < period / wanted < MOST_OFF:
        return None, f"the rows are {period:.3g} s apart, the control period is {wanted:g} s; check the unit of time"
    replay = Replay(model_path, description, model_joints or names, period)
    return search(replay, motion, steps, names), ""


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
