"""Read the log of a policy on a robot: a CSV file as OnnxPolicy(log=...) writes it, one with the same columns, or a
recording of ROS messages."""

from __future__ import annotations

import csv
import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, TextIO, Tuple

import numpy as np

from rsl_rl.utils.text import listed

BAGS = (".mcap", ".db3", ".bag")
"""Ends of the names of recordings of ROS messages; a folder is one too."""

MAX_ROWS = 30_000
"""Rows that are read; ten minutes at 50 Hz."""

MAX_LINE = 100_000
"""Letters of a line."""

LARGEST = 1e6
"""Readings and targets that are larger are no numbers of a robot, and count as not finite."""

PARTS: Dict[str, Tuple[str, ...]] = {
    "command": ("vx", "vy", "yaw_rate"),
    "base_quat": ("w", "x", "y", "z"),
    "base_ang_vel": ("x", "y", "z"),
    "base_lin_vel": ("x", "y", "z"),
    "base_lin_vel_world": ("x", "y", "z"),
    "gait_clock": ("sin", "cos"),
}
"""Readings that are not of joints, and their numbers."""

NUMBERED = ("style", "foot_clock")
"""Readings whose columns are numbered; the description tells how many they have."""

COMMANDED = ("command", "gait_clock", *NUMBERED)
"""Readings that no sensor measures."""

NOT_JUDGED = ("base_pos", "reference_")
"""Beginnings of the names of other columns of OnnxPolicy, of policies that follow a motion."""

_DEGREE = math.radians(1.0)
_ANGLE, _TURN_RATE = {"rad": 1.0, "deg": _DEGREE}, {"rad/s": 1.0, "deg/s": _DEGREE}
_SPEED = {"m/s": 1.0, "km/h": 1 / 3.6}
_UNITS: Dict[str, Mapping[str, float]] = {
    "time": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9},
    "episode": {},
    "command": {**_SPEED, **_TURN_RATE},
    "base_quat": {},
    "base_ang_vel": _TURN_RATE,
    "base_lin_vel": _SPEED,
    "base_lin_vel_world": _SPEED,
    "gait_clock": {},
    **{name: {} for name in NUMBERED},
    "joint_pos": _ANGLE,
    "joint_vel": _TURN_RATE,
    "joint_torque": {"N m": 1.0, "Nm": 1.0},
    "observation": {},
    "action": {},
    "target": _ANGLE,
}
"""Groups of columns, with their units and the factors to SI units."""


@dataclass(frozen=True)
class Log:
    """T rows of a log; joints of readings and targets are in the order of ``joint_names``, the robot's."""

    time: np.ndarray  # [T] [s]
    episode: np.ndarray  # [T] int
    joint_names: Tuple[str, ...]
    readings: Dict[str, np.ndarray]  # [T, k] in SI units; only those that the log has
    observation: Optional[np.ndarray]  # [T, D]; NaN where not logged
    action: Optional[np.ndarray]  # [T, A] in the policy's order
    target: np.ndarray  # [T, J] [rad]
    notes: Tuple[str, ...] = field(default=())  # what is wrong with the file, in sentences

    @property
    def starts(self) -> np.ndarray:
        """Return whether each row is the first of its episode."""
        return np.concatenate([[True], self.episode[1:] != self.episode[:-1]])


def read_log(path: Path, description: Mapping[str, Any], topics: Optional[Mapping[str, str]] = None) -> Log:
    """Read a log of a policy with this description; what cannot be read is a ValueError in one line.

    ``topics`` are those of a recording of ROS messages, see :func:`rsl_rl.evaluation.doctor.bags.read_bag`.
    """
    policy_joints = [str(name) for name in description["joint_names"]]
    if path.suffix in BAGS or path.is_dir():
        columns, table, notes = _bag(path, policy_joints, topics or {})
    elif topics:
        raise ValueError(f"--topics is for recordings of ROS messages ({', '.join(BAGS)}, or a folder), not for {path}")
    else:
        columns, table, notes = _csv(path)
    joints = [name.partition(".")[2] for name in columns if name.startswith("joint_pos.")]
    if sorted(joints) != sorted(policy_joints):
        missing = sorted(set(policy_joints) - set(joints)) or sorted(set(joints) - set(policy_joints))
        raise ValueError(
            f"{path} has the joints {listed(joints, 3)}, the policy {listed(policy_joints, 3)}; the first "
            f"that one of them lacks is {missing[0] if missing else 'named twice'}: give the log of this robot"
        )
    large = ~(np.abs(table) <= LARGEST)
    large[:, columns["time"]] = False
    table[large] = math.nan

    def group(name: str, parts: Sequence[str]) -> Optional[np.ndarray]:
        wanted = [f"{name}.{part}" for part in parts]
        there = [one for one in wanted if one in columns]
        if there and len(there) < len(wanted):
            lacking = next(one for one in wanted if one not in columns)
            raise ValueError(f"{path} has a column {there[0]} and none {lacking}; give all {len(wanted)} or none")
        values = table[:, [columns[one] for one in wanted]] if there else None
        return None if values is None or np.isnan(values).all() else values

    described = description.get("observations", ())
    told = {one["name"]: one["size"] for one in described if one["name"] in NUMBERED}
    numbered = {name: _numbers_to(size) for name, size in told.items()}
    readings = {name: group(name, parts) for name, parts in {**PARTS, **numbered}.items()}
    readings.update({name: group(name, joints) for name in ("joint_pos", "joint_vel", "joint_torque")})
    target = group("target", joints)
    if target is None and f"target.{joints[0]}" in columns:
        target = np.full((len(table), len(joints)), math.nan)  # the runner accepted none of the readings
    if readings["joint_pos"] is None or target is None:
        lacking = "joint_pos" if readings["joint_pos"] is None else "target"
        raise ValueError(f"{path} has no numbers of {lacking}; log joint positions and joint targets")
    time, episode = table[:, columns["time"]], np.zeros(len(table), int)
    if "episode" in columns:
        numbers = table[:, columns["episode"]]
        unusable = ~(np.isfinite(numbers) & (numbers == np.round(numbers)))
        if unusable.any():
            raise ValueError(f"{path}: episode is not a whole number in row {_first(unusable) + 2}")
        episode = numbers.astype(int)
    _check_time(path, time, episode)
    if len(time) > 4 and (np.diff(episode) != 0).mean() > 0.5:
        raise ValueError(f"{path}: the episode changes in most rows; give the number that each reset increases")
    size, logged = description["inputs"]["obs"][-1], sum(name.startswith("observation.") for name in columns)
    if logged > size:
        raise ValueError(f"{path} has {logged} numbers of the observation, the policy {size}; give the policy that ran")
    log = Log(
        time=time,
        episode=episode,
        joint_names=tuple(joints),
        readings={name: values for name, values in readings.items() if values is not None},
        observation=group("observation", [str(i) for i in range(size)]),
        action=group("action", policy_joints),
        target=target,
    )
    return Log(**{**vars(log), "notes": (*notes, *_notes(log))})


def _first(where: np.ndarray) -> int:
    return int(np.flatnonzero(where)[0])


def _lines(file: TextIO) -> Iterator[str]:
    """Yield the lines of a file; one that is longer than any of a log is a csv.Error."""
    for line in iter(lambda: file.readline(MAX_LINE), ""):
        if len(line) == MAX_LINE and not line.endswith("\n"):
            raise csv.Error(f"a line has more than {MAX_LINE:,} characters")
        yield line


def _bag(
    path: Path, joint_names: Sequence[str], topics: Mapping[str, str]
) -> Tuple[Dict[str, int], np.ndarray, List[str]]:
    """Return the place of each column, the numbers [T, columns] and notes of a recording of ROS messages."""
    if not path.exists():
        raise FileNotFoundError(f"no file {path}; give the recording of a robot")
    try:
        from rsl_rl.evaluation.doctor.bags import read_bag
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        message = f"{path} needs {package}, which is not installed: pip install 'rsl-rl-lib[bags]'"
        raise ValueError(message) from error
    bag = read_bag(path, joint_names, topics, MAX_ROWS)
    return {name: i for i, name in enumerate(bag.header)}, bag.table, bag.notes


def _csv(path: Path) -> Tuple[Dict[str, int], np.ndarray, List[str]]:
    """Return the place of each column, the numbers [T, columns] in SI units and notes of a CSV file."""
    header, rows, notes = _read_rows(path)
    columns, factors, unknown = _columns(path, header)
    if unknown:
        notes.append(f"columns that a log does not have are not used: {listed(unknown, 3)}")
    names, places = [header[i] for i in columns.values()], list(columns.values())
    table = _numbers(path, [[row[i] for i in places] for row in rows], names) * factors
    return {name: i for i, name in enumerate(columns)}, table, notes


def _read_rows(path: Path) -> Tuple[List[str], List[List[str]], List[str]]:
    """Return header, rows and notes of a CSV file."""
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}; OnnxPolicy(..., log=FILE) writes one")
    notes: List[str] = []
    rows: List[List[str]] = []
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            for row in csv.reader(_lines(file), strict=True):
                if len(rows) > MAX_ROWS:
                    notes.append(f"the log has more than {MAX_ROWS:,} rows; only these are used")
                    break
                if row:
                    rows.append(row)
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} is not a CSV file: {' '.join(str(error).split())}") from error
    if not rows:
        raise ValueError(f"{path} is empty")
    header, body = rows[0], rows[1:]
    if len(header) == 1 and re.search("[;\t]", header[0]):
        raise ValueError(f"{path}: the cells are not separated by commas; write 0.5,1.0 and no 0,5;1,0")
    if body and len(body[-1]) != len(header):
        notes.append("the last row is cut off and left out")
        body = body[:-1]
    for number, row in enumerate(body):
        if len(row) != len(header):
            raise ValueError(f"{path}: row {number + 2} has {len(row)} cells, the header {len(header)}")
    if not body:
        raise ValueError(f"{path} has a header and no whole row")
    return header, body, notes


def _columns(path: Path, header: Sequence[str]) -> Tuple[Dict[str, int], List[float], List[str]]:
    """Return the place of each column by its name without a unit, their factors to SI units, and names that no log
    has."""
    columns: Dict[str, int] = {}
    factors: List[float] = []
    unknown: List[str] = []
    for i, text in enumerate(header):
        match = re.fullmatch(r"\s*([^\[\]]*?)\s*(?:\[([^\]]*)\])?\s*", text)
        name, unit = (match.group(1), (match.group(2) or "").strip()) if match else (text, "")
        known = _UNITS.get(name.partition(".")[0])
        if known is None:
            unknown += [name[:40]] if name and not name.startswith(NOT_JUDGED) else []
            continue
        if name in columns:
            raise ValueError(f"{path} has two columns {name}")
        if unit and unit not in known:
            units = f"known units: {', '.join(known)}" if known else "it has no unit"
            raise ValueError(f"{path}: {name} is in '{unit[:20]}'; {units}")
        columns[name] = i
        factors.append(known.get(unit, 1.0))
    if "time" not in columns:
        begin = ", ".join(header[:4])
        raise ValueError(f"{path} has no column 'time [s]'; it begins with {begin[:100]}: give a log of OnnxPolicy")
    return columns, factors, unknown


def _numbers(path: Path, rows: Sequence[Sequence[str]], header: Sequence[str]) -> np.ndarray:
    """Return the cells as numbers, NaN where they are empty, [T, columns]."""
    table = np.empty((len(rows), len(header)))
    for number, row in enumerate(rows):
        try:
            table[number] = [float(cell) if cell else math.nan for cell in row]
        except ValueError:
            for name, cell in zip(header, row):
                if cell and not _is_number(cell):
                    message = f"{path}: {name.strip()[:60]} in row {number + 2} is '{cell[:40]}', not a number"
                    raise ValueError(message) from None
    return table


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _check_time(path: Path, time: np.ndarray, episode: np.ndarray) -> None:
    unusable = ~(np.abs(time) < 1e12)
    if unusable.any():
        row = _first(unusable)
        raise ValueError(
            f"{path}: the time of row {row + 2} is not a number of seconds; other units are given in the header, such "
            "as 'time [ns]'"
        )
    back = np.diff(time) <= 0
    if back.any():
        row = _first(back)
        raise ValueError(
            f"{path}: the time goes from {time[row]:.6g} s in row {row + 2} to {time[row + 1]:.6g} s in the next; "
            "sort the rows by time, and give each control step once"
        )
    if (np.diff(episode) < 0).any():
        raise ValueError(f"{path}: the episode goes back in row {_first(np.diff(episode) < 0) + 3}; sort the rows")


def _parts_of(log: Log, name: str) -> np.ndarray:
    """Return the names of the numbers of a group."""
    if name in NUMBERED:
        return np.array(_numbers_to(log.readings[name].shape[1]))
    return np.array(PARTS.get(name, log.joint_names))


def _numbers_to(count: int) -> Tuple[str, ...]:
    return tuple(str(i) for i in range(count))


def _notes(log: Log) -> List[str]:
    """Return what is missing in a log, in sentences."""
    notes = []
    for name, values in {**log.readings, "target": log.target}.items():
        bad = np.asarray(~np.isfinite(values).all(axis=1))
        if bad.any():
            share = f"{bad.sum()} of {len(bad)} rows, first in row {_first(bad) + 2}"
            of = _parts_of(log, name)[np.flatnonzero(~np.isfinite(values).all(axis=0))].tolist()
            which = f" of {listed(of, 3)}" if len(of) < values.shape[1] else ""
            notes.append(f"{name}{which} is missing or not finite in {share}; they are left out")
    inside = log.episode[1:] == log.episode[:-1]
    period = np.diff(log.time)
    if inside.any():
        usual = float(np.median(period[inside]))
        gaps = inside & (period > 5 * usual)
        if gaps.any():
            notes.append(
                f"{gaps.sum()} gaps in time, the longest of {period[gaps].max():.2f} s; nothing is judged across them"
            )
    return notes
