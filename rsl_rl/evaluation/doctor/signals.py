"""Judge a log without a model of the robot: its times, and readings that repeat or are cut off."""

from __future__ import annotations

import math
from typing import Any, Dict, Iterator, List, Mapping, Tuple

import numpy as np

from rsl_rl.evaluation.doctor.finding import Finding
from rsl_rl.evaluation.doctor.log import COMMANDED, Log
from rsl_rl.evaluation.doctor.replay import multiply

RATE_TOLERANCE = 0.06
"""Largest difference of the median period from the policy's, relative."""

JITTER_TOLERANCE = 0.25
"""Largest spread of the period, from the 5th to the 95th percentile, relative to the policy's."""

MISSED_TOLERANCE = 0.02
"""Largest share of periods that are twice the policy's or longer."""

LEAST_REPEATED = 0.4
"""Share of rows with the targets of the row before from which a log may have several rows of a control step."""

_REPEATS = 2
"""Rows in a row that may equal the one before."""

_STALE_SHARE = 0.05
"""Share of the rows of a moving robot that may be stale."""

_FAR_BEYOND, _BARELY_BEYOND = 2.0, 0.3
"""Distances beyond a joint's limit [rad] that no joint has, and that it may have by noise or a wrong zero."""

_MOVES = 0.3
"""Size of the fastest joint velocity of a moving robot [rad/s]."""


def check_rows(log: Log, control_period: float) -> None:
    """Raise a ValueError for a log with several rows of each control step, of a recorder that is faster."""
    outputs = [x for x in (log.target, log.observation, log.action) if x is not None]
    same = np.all([((x[1:] == x[:-1]) | np.isnan(x[1:] + x[:-1])).all(axis=1) for x in outputs], axis=0)
    steps = max(1, int((~same | log.starts[1:]).sum()))
    if len(same) < 10 or same.mean() < LEAST_REPEATED or not np.isfinite(log.target).any():
        return
    seconds = len(same) / steps * float(np.median(np.diff(log.time)))
    if 0.6 < seconds / control_period < 1.6:
        raise ValueError(f"the log has about {len(same) / steps:.3g} rows of each control step; give one of each")


def judge_time(log: Log, control_period: float) -> Iterator[Finding]:
    """Yield what is wrong with the rate of the control loop."""
    inside = ~log.starts[1:]
    periods = np.diff(log.time)[inside]
    if len(periods) < 10:
        return
    median, seconds = float(np.median(periods)), log.time[1:][inside] - log.time[0]
    traces = {"time": seconds, "logged": 1e3 * periods, "expected": np.full(len(periods), 1e3 * control_period)}
    traces["label"] = "period of the loop [ms]"
    ratio = median / control_period
    doubt = 2.5 * float(periods.std()) / control_period / math.sqrt(len(periods))  # of the median
    evidence = f"median period {1e3 * median:.2f} ms, the policy's {1e3 * control_period:.2f} ms"
    if abs(ratio - 1.0) > RATE_TOLERANCE + min(doubt, RATE_TOLERANCE):
        sentence = f"the control loop runs at {1 / median:.3g} Hz in place of {1 / control_period:.3g} Hz"
        if 900 < ratio < 1100:
            sentence = "the times look like milliseconds: call the column 'time [ms]'"
        yield Finding("rate", "reading", sentence, evidence, 0.99, traces=traces)
    low, high = np.percentile(periods, [5, 95])
    missed = float((periods > 1.8 * median).mean())
    if (high - low) / median > JITTER_TOLERANCE or missed > MISSED_TOLERANCE:
        evidence = f"90 % of the periods are {1e3 * low:.1f} to {1e3 * high:.1f} ms, {missed:.1%} are twice the median"
        yield Finding("jitter", "reading", "the period of the control loop varies", evidence, 0.99, traces=traces)


def stale_rows(log: Log) -> Dict[str, np.ndarray]:
    """Return by sensor which rows repeat earlier numbers, [T] bool, where a sensor repeats too often."""
    rows = len(log.time)
    moving = _moving(log)
    found = {}
    for name, values in _sensors(log):
        same = np.concatenate([[False], (values[1:] == values[:-1]).all(axis=1) & ~log.starts[1:]])
        run = np.zeros(rows, int)
        for t in range(1, rows):
            run[t] = run[t - 1] + 1 if same[t] else 0
        if (run > _REPEATS)[moving].sum() > max(3, _STALE_SHARE * moving.sum()):
            found[name] = same
    for name in [one for one in found if "." in one and one.partition(".")[0] in found]:
        del found[name]
    return found


def _sensors(log: Log) -> List[Tuple[str, np.ndarray]]:
    """Return each group of readings, and each joint's position and velocity, as a column."""
    groups = [(name, x) for name, x in log.readings.items() if name not in COMMANDED]
    for name in ("joint_pos", "joint_vel"):
        if name in log.readings:
            groups += [(f"{name}.{one}", log.readings[name][:, i : i + 1]) for i, one in enumerate(log.joint_names)]
    return groups


def _moving(log: Log) -> np.ndarray:
    """Return in which rows something moves, by the targets or by any joint: [T] bool."""
    speed = np.zeros(len(log.time))
    step = np.maximum(np.diff(log.time), 1e-6)
    targets = np.abs(np.diff(log.target, axis=0)).max(axis=1) / step
    speed[1:] = np.maximum(speed[1:], np.nan_to_num(targets))
    if "joint_vel" in log.readings:
        speed = np.maximum(speed, np.nan_to_num(np.abs(log.readings["joint_vel"])).max(axis=1))
    return speed > _MOVES


def judge_stale(log: Log, stale: Dict[str, np.ndarray]) -> Iterator[Finding]:
    """Yield a finding for each sensor that repeats its numbers."""
    for name, same in stale.items():
        values = dict(_sensors(log))[name]
        shown = int(np.nanvar(values, axis=0).argmax())
        evidence = f"its numbers equal those of the row before in {same.mean():.0%} of the rows, while the robot moves"
        traces = {"time": log.time - log.time[0], "logged": values[:, shown], "label": name}
        yield Finding("stale sensor", "reading", f"{name} is stale", evidence, 0.99, traces=traces)


def judge_clipped(log: Log) -> Iterator[Finding]:
    """Yield readings that are cut off at a number, and those that reach it often."""
    for name, values in log.readings.items():
        if name in ("base_quat", *COMMANDED):
            continue
        size = np.abs(values)
        largest = np.nanmax(size)
        at = np.isclose(size, largest, rtol=1e-7).any(axis=1)
        both = (values >= largest * (1 - 1e-7)).any() and (values <= -largest * (1 - 1e-7)).any()
        columns = np.isclose(size, largest, rtol=1e-7).any(axis=0).sum()
        distinct = len(np.unique(np.round(values[np.isfinite(values)], 9)))
        if at.mean() > 0.02 and at.sum() > 5 and (both or columns > 1) and distinct > 20:
            evidence = f"{at.mean():.0%} of the rows have a number at the limit"
            traces = {"time": log.time - log.time[0], "label": name}
            traces["logged"] = values[:, int(np.isclose(size, largest).sum(axis=0).argmax())]
            yield Finding(
                "clipped input", "reading", f"{name} is clipped to {largest:.3g}", evidence, 0.95, traces=traces
            )


def judge_units(log: Log, description: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield readings in degrees: joint positions beyond the limits of the joints, and joint positions and their
    velocities, or orientation and angular velocity, that do not belong together."""
    limits = description.get("joint_limits")
    beyond = limits is not None and _beyond_limits(log, description, np.array(limits))
    if beyond:
        evidence = "positions are beyond the limits of the joints, and within them as degrees"
        traces = _traces_of_units(log, "joint_pos", np.radians(log.readings["joint_pos"]))
        yield Finding("degrees", "reading", "joint_pos in degrees", evidence, 0.9, traces=traces)
    step = np.diff(log.time)[:, None]
    inside = ~log.starts[1:]
    pairs = []
    if "joint_vel" in log.readings and not beyond:
        pairs.append(("joint_vel", "joint_pos", np.diff(log.readings["joint_pos"], axis=0) / step))
    if "base_quat" in log.readings and "base_ang_vel" in log.readings:
        quat = log.readings["base_quat"]
        turn = multiply(quat[:-1] * np.array([1.0, -1, -1, -1]), quat[1:])[:, 1:]
        pairs.append(("base_ang_vel", "", 2 * turn / step))
    for name, source, derivative in pairs:
        sizes = [np.abs(x[inside]) for x in (log.readings[name][1:], derivative)]
        if not inside.any() or not all(np.isfinite(x).any() for x in sizes):
            continue
        ratio = float(np.nanpercentile(sizes[0], 90) / max(1e-9, np.nanpercentile(sizes[1], 90)))
        wrong = name if 20 < ratio < 170 else source if 20 < 1 / max(ratio, 1e-9) < 170 else ""
        if wrong and _agreement(*(x[inside] for x in (log.readings[name][1:], derivative))) > 0.3:
            evidence = f"{name} is {ratio:.3g} times the derivative of {source or 'base_quat'}"
            fix = {"units": {name: "deg/s"}} if wrong == name else {}
            traces = _traces_of_units(log, name, np.concatenate([derivative[:1], derivative]))
            yield Finding("degrees", "reading", f"{wrong} in degrees", evidence, 0.9, fix, traces=traces)


def _traces_of_units(log: Log, name: str, expected: np.ndarray) -> Dict[str, Any]:
    """Return the plot of the number of a reading that varies most, and what is expected of it, [T, k]."""
    values = log.readings[name]
    shown = int(np.nan_to_num(np.nanvar(values, axis=0)).argmax())
    numbers = {"time": log.time - log.time[0], "logged": values[:, shown], "expected": expected[:, shown]}
    return {**numbers, "label": f"{name}, number {shown + 1}"}


def _agreement(first: np.ndarray, second: np.ndarray) -> float:
    """Return the correlation of two signals [T, k] through zero."""
    rows = np.isfinite(first).all(axis=1) & np.isfinite(second).all(axis=1)
    a, b = first[rows].ravel(), second[rows].ravel()
    return float(a @ b / max(1e-12, math.sqrt(float(a @ a) * float(b @ b))))


def _beyond_limits(log: Log, description: Mapping[str, Any], limits: np.ndarray) -> bool:
    """Return whether most joint positions [rad] are far beyond the joints' limits, and would be within as degrees."""
    signs, zeros = (
        np.array(description.get(name, plain)) for name, plain in (("joint_signs", 1.0), ("joint_zeros", 0.0))
    )
    order = [log.joint_names.index(name) for name in description["joint_names"]]
    positions = log.readings["joint_pos"][:, order]
    positions = positions[np.isfinite(positions).all(axis=1)]

    def outside(angles: np.ndarray) -> np.ndarray:
        """Return by how much the policy's angles of these are beyond the limits, [T, J]."""
        own = signs * (angles - zeros)
        return np.maximum(limits[:, 0] - own, own - limits[:, 1])

    if not len(positions):
        return False
    far = (outside(positions) > _FAR_BEYOND).any(axis=1).mean()
    return bool(far > 0.5 and (outside(np.radians(positions)) < _BARELY_BEYOND).mean() > 0.98)
