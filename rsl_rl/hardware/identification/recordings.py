"""Logs for an identification: checked, in the policy's order and SI units, and cut where time has gaps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, List, Mapping, Optional, Tuple

import numpy as np

from rsl_rl.evaluation.doctor import read_log
from rsl_rl.evaluation.doctor.log import Log
from rsl_rl.evaluation.doctor.motion import motion_of
from rsl_rl.evaluation.doctor.replay import Motion
from rsl_rl.utils.text import listed

LEAST_SECONDS = 4.0
"""Usable time of a log [s]."""

QUIET = 0.05
"""Range of 90 % of a joint's positions below which it tells nothing [rad]."""

MOST_DROPPED = 0.1
"""Share of rows that may be missing or not usable."""

GAP = 1.6
"""Times the usual period from which two rows are not connected."""


@dataclass(frozen=True)
class Recording:
    """T rows of a log, as a policy with the contract sees them; ``pieces`` are ranges of rows without a gap."""

    name: str
    time: np.ndarray  # [T] [s]
    motion: Motion
    pieces: Tuple[Tuple[int, int], ...]
    period: float  # usual time between two rows [s]
    has_gyro: bool
    torque: Optional[np.ndarray]  # [T, J] [N m], where it was measured
    notes: Tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """Usable time [s]."""
        return float(sum(self.time[end - 1] - self.time[start] for start, end in self.pieces))

    @property
    def moved(self) -> np.ndarray:
        """Range of 90 % of the positions of each joint [J] [rad]."""
        low, high = np.nanpercentile(self.motion.joint_pos, (5, 95), axis=0)
        return np.asarray(high - low)


def read_recording(path: Path, description: Mapping[str, Any]) -> Recording:
    """Read a log of a robot with this contract; one that cannot serve is a ValueError in one line."""
    log = read_log(path, description)
    name, notes = path.name, [note for note in log.notes if "gaps in time" not in note]
    if "base_quat" not in log.readings:
        upright = np.tile([1.0, 0.0, 0.0, 0.0], (len(log.time), 1))
        log = replace(log, readings={**log.readings, "base_quat": upright})
        notes.append("there is no base_quat, so the trunk is taken as level")
    motion = motion_of(log, description)
    period = float(np.median(np.diff(log.time)[~log.starts[1:]])) if len(log.time) > 2 else 0.0
    if not 5e-4 <= period <= 0.05:
        raise ValueError(f"{path}: the rows are {period:.3g} s apart; give a log with 20 to 2000 rows a second")
    pieces, lost = _pieces(log, motion, period)
    _check(path, log, motion, pieces, lost, period)
    if lost > 0:
        notes.append(f"{100 * lost:.1f} % of the rows are missing or not usable; the log is cut there")
    recording = Recording(
        name, log.time, motion, tuple(pieces), period, "base_ang_vel" in log.readings,
        _torque(path, log, description), tuple(f"{name}: {note}" for note in notes),
    )  # fmt: skip
    quiet = [joint for joint, size in zip(description["joint_names"], recording.moved) if size < QUIET]
    if len(quiet) == len(recording.moved):
        raise ValueError(
            f"{path} is too quiet: no joint moves by {QUIET:g} rad; play an excitation (rsl-rl identify --excite), or "
            "log a walk"
        )
    if quiet:
        note = f"{name}: {listed(quiet)} hardly move{'s' if len(quiet) == 1 else ''}"
        recording = replace(recording, notes=(*recording.notes, note))
    return recording


def _pieces(log: Log, motion: Motion, period: float) -> Tuple[List[Tuple[int, int]], float]:
    """Return ranges of usable rows without a gap, of at least 0.5 s, and the share of rows that is lost."""
    good = np.ones(len(log.time), bool)
    for values in (motion.base_quat, motion.base_ang_vel, motion.joint_pos, motion.joint_vel, motion.targets):
        good &= np.isfinite(values).all(axis=1)
    steps = np.diff(log.time)
    whole = good[1:] & good[:-1] & (steps < GAP * period) & ~log.starts[1:]
    ends = np.flatnonzero(~np.concatenate([[False], whole, [False]]))
    pieces = [(int(start), int(end)) for start, end in zip(ends[:-1], ends[1:]) if end > start]
    pieces = [(start, end) for start, end in pieces if log.time[end - 1] - log.time[start] >= 0.5]
    inside = ~log.starts[1:]
    expected = 1 + np.round(steps[inside] / period).clip(1, 1e6).sum() if inside.any() else 1
    return pieces, 1.0 - min(1.0, sum(end - start for start, end in pieces) / expected)


def _check(path: Path, log: Log, motion: Motion, pieces: List[Tuple[int, int]], lost: float, period: float) -> None:
    """Raise a ValueError for a log that tells too little."""
    inside = ~log.starts[1:]
    steps = np.diff(log.time)[inside]
    jumps = steps > 1.0
    if jumps.any():
        at = int(np.flatnonzero(inside)[np.flatnonzero(jumps)[0]])
        raise ValueError(
            f"{path}: the clock jumps by {steps.max():.3g} s in row {at + 3}; log with a clock that runs evenly, such "
            "as time.monotonic()"
        )
    seconds = sum(float(log.time[end - 1] - log.time[start]) for start, end in pieces)
    whole = float(log.time[-1] - log.time[0])
    if whole < LEAST_SECONDS:
        raise ValueError(f"{path} is too short: {whole:.2g} s; log at least {LEAST_SECONDS:g} s, better 20 s")
    if lost > MOST_DROPPED or seconds < LEAST_SECONDS:
        raise ValueError(
            f"{path}: {100 * lost:.0f} % of the rows are missing or not usable, {seconds:.2g} s are left; at most "
            f"{100 * MOST_DROPPED:.0f} % may be, and {LEAST_SECONDS:g} s must be left: log a row in each period"
        )
    repeated = (np.diff(motion.joint_pos, axis=0) == 0.0).all(axis=1) & (np.abs(motion.joint_vel[1:]) > 0.3).any(axis=1)
    if repeated.mean() > 0.2:
        raise ValueError(
            f"{path}: the joint positions repeat in {100 * repeated.mean():.0f} % of the rows while joints move; log a "
            f"row for each new reading (rows are {1000 * period:.3g} ms apart)"
        )


def _torque(path: Path, log: Log, description: Mapping[str, Any]) -> Optional[np.ndarray]:
    """Return measured torques in the policy's order and signs."""
    if "joint_torque" not in log.readings:
        return None
    order = [list(log.joint_names).index(name) for name in description["joint_names"]]
    return np.asarray(np.array(description.get("joint_signs", 1.0)) * log.readings["joint_torque"][:, order])
