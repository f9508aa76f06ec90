"""Write what a policy gets and gives to a file, and replay what it got and gave in simulation.

onnx_policy.py uses this file for OnnxPolicy("policy.onnx", log="walk.csv") and for

    python onnx_policy.py policy.onnx --check

Copy it to the robot with onnx_policy.py for these two; walking needs neither. It needs numpy alone.
"""

import csv
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Protocol, Sequence, Tuple, Union

import numpy as np

READINGS: Dict[str, Tuple[Tuple[str, ...], str]] = {
    "command": (("vx [m/s]", "vy [m/s]", "yaw_rate [rad/s]"), ""),
    "base_quat": (("w", "x", "y", "z"), ""),
    "base_ang_vel": (("x", "y", "z"), " [rad/s]"),
    "base_lin_vel": (("x", "y", "z"), " [m/s]"),
    "base_lin_vel_world": (("x", "y", "z"), " [m/s]"),
    "gait_clock": (("sin", "cos"), ""),
    "joint_pos": ((), " [rad]"),
    "joint_vel": ((), " [rad/s]"),
}
"""Readings in the order of a log, the names of their numbers, those of the joints if empty, and the unit."""
REFERENCES: Dict[str, Tuple[Tuple[str, ...], str]] = {
    "base_pos": (("x", "y", "z"), " [m]"),
    "reference_base_pos": (("x", "y", "z"), " [m]"),
    "reference_base_quat": (("w", "x", "y", "z"), ""),
    "reference_joint_pos": ((), " [rad]"),
    "reference_joint_vel": ((), " [rad/s]"),
}
"""Readings of a policy that follows a motion, see references.py."""
TRACE_TOLERANCE = 1e-4
"""Largest difference of a number of the observation, an action or a joint target [rad] from a trace."""


class Policy(Protocol):
    """What is recorded of onnx_policy.Policy."""

    joint_names: List[str]
    description: Mapping[str, Any]
    control_period: float
    last_action: np.ndarray
    last_obs: Optional[np.ndarray]
    held: int
    problem: str

    def reset(self) -> None: ...

    def __call__(self, **state: Any) -> np.ndarray: ...

    def term_names(self) -> Iterator[str]: ...


class Log:
    """A CSV file with a row for each call of a policy: its readings, observation, action and targets.

    A number that was not given is an empty cell; so are observation and action of a call that returned the last
    targets, and the targets too of one that returned none. Each row is in the file before the call returns, so that a
    crash leaves the rows before it.
    """

    def __init__(self, path: Union[str, Path], policy: Policy):
        self._policy, self._path = policy, Path(path)
        self._path.write_text("")
        self._append(log_columns(policy.joint_names, policy.description))

    def write(self, now: float, episode: int, readings: Mapping[str, Any], targets: Optional[np.ndarray]) -> None:
        """Write the row of a call: the time of its beginning [s], the readings as given, and the targets returned."""
        policy, row = self._policy, [f"{now:.6f}", str(episode)]
        joints, unusable = len(policy.joint_names), bool(policy.held) or targets is None
        for name, (parts, _) in readings_of(policy.description).items():
            row += _cells(readings.get(name), len(parts) or joints)
        row += _cells(None if unusable else policy.last_obs, policy.description["inputs"]["obs"][-1])
        row += _cells(None if unusable else policy.last_action, joints)
        self._append(row + _cells(targets, joints))

    def _append(self, row: Sequence[str]) -> None:
        with self._path.open("a", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerow(row)


def readings_of(description: Mapping[str, Any]) -> Dict[str, Tuple[Tuple[str, ...], str]]:
    """Return the readings of a policy as those of READINGS, with its style and the references if it reads some; joints
    of several frames are numbered."""
    terms, readings = {term["name"]: term for term in description["observations"]}, dict(READINGS)
    for name in ("style", "foot_clock"):
        if name in terms:
            readings[name] = (tuple(f"{i}" for i in range(terms[name]["size"])), "")
    if not any(name.startswith("reference_") for name in terms):
        return readings
    readings, joints = {**readings, **REFERENCES}, description["joint_names"]
    for name in ("reference_joint_pos", "reference_joint_vel"):
        size = terms[name]["size"] if name in terms else len(joints)
        parts = tuple(f"{joints[i % len(joints)]}.{i // len(joints)}" for i in range(size))
        readings[name] = (parts, REFERENCES[name][1])
    return readings


def log_columns(joint_names: Sequence[str], description: Mapping[str, Any]) -> List[str]:
    """Return the header of a log, in which the robot lists its joints in this order."""
    header = ["time [s]", "episode", *reading_columns(joint_names, description, readings_of(description))]
    header += [f"observation.{i}" for i in range(description["inputs"]["obs"][-1])]
    header += [f"action.{name}" for name in description["joint_names"]]
    return header + target_columns(joint_names, description)


def reading_columns(
    joint_names: Sequence[str],
    description: Mapping[str, Any],
    readings: Mapping[str, Tuple[Tuple[str, ...], str]],
) -> List[str]:
    """Return the header of some readings, in the units and the order of the quaternion of a description."""
    header, units = [], description.get("units", {})
    for name, (parts, unit) in readings.items():
        unit = f" [{units[name]}]" if name in units else unit
        parts = tuple(description.get("quaternion_order", parts)) if name == "base_quat" else parts
        header += [f"{name}.{part}{unit}" for part in parts or joint_names]
    return header


def target_columns(joint_names: Sequence[str], description: Mapping[str, Any]) -> List[str]:
    """Return the header of the targets."""
    unit = description.get("units", {}).get("joint_pos", "rad")
    return [f"target.{name} [{unit}]" for name in joint_names]


def _cells(value: Any, size: int) -> List[str]:
    """Return numbers as texts, empty ones for values that are not ``size`` numbers."""
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        return [""] * size
    return [f"{x:.9g}" for x in array] if array.shape == (size,) else [""] * size


class TraceDifference(NamedTuple):
    """The first number of a replay that differs from a trace."""

    boundary: str  # observation, action or target
    place: str  # the term of the observation, or the joint
    step: int
    difference: float


def read_trace(path: Union[str, Path]) -> Dict[str, np.ndarray]:
    """Read trace.npz: readings, observations, actions and targets of T steps; damage is a ValueError."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"no file {path}; the export writes trace.npz beside policy.onnx: copy it too")
    try:
        with np.load(path, allow_pickle=False) as content:
            trace = {name: content[name] for name in content.files}
    except Exception as error:  # damage is of many kinds
        raise ValueError(f"{path} is damaged: {str(error)[:100]}; copy it again, or export the policy again") from error
    needed = ("joint_names", "episode_start", "observation", "action", "target", "command")
    missing = [name for name in needed if name not in trace]
    if missing:
        raise ValueError(f"{path} lacks {', '.join(missing)}; export the policy again")
    others = [name for name, values in trace.items() if name != "joint_names" and not _is_table(values)]
    if others or trace["episode_start"].ndim != 1:
        raise ValueError(f"{path}: {', '.join(others) or 'episode_start'} has no number for each step; copy it again")
    lengths = {name: len(values) for name, values in trace.items() if name != "joint_names"}
    if len(set(lengths.values())) != 1 or not lengths["action"]:
        raise ValueError(f"{path} has arrays of different lengths, or empty ones: {lengths}; copy it again")
    return trace


def _is_table(values: np.ndarray) -> bool:
    """Return whether an array has numbers for each of several steps."""
    return values.ndim > 0 and values.dtype.kind in "biuf"


def replay_trace(policy: Policy, trace: Mapping[str, np.ndarray]) -> Tuple[Optional[TraceDifference], np.ndarray]:
    """Return the first difference from a trace, and the time of each step [s].

    Each step starts from the recorded last action, so that rounding does not accumulate.
    """
    readings = {name: trace[name] for name in readings_of(policy.description) if name in trace}
    first, seconds = None, np.zeros(len(trace["action"]))
    for step in range(len(seconds)):
        if trace["episode_start"][step]:
            policy.reset()
        else:
            policy.last_action = trace["action"][step - 1]
        began = time.perf_counter()
        targets = policy(**{name: values[step] for name, values in readings.items()})
        seconds[step] = time.perf_counter() - began
        if policy.held:
            raise ValueError(f"the policy refuses step {step} of the trace: {policy.problem}")
        first = first or _difference(policy, trace, step, targets)
    return first, seconds


def _difference(
    policy: Policy, trace: Mapping[str, np.ndarray], step: int, targets: np.ndarray
) -> Optional[TraceDifference]:
    """Return where a step differs from the trace, at the first boundary that does."""
    own = {"observation": policy.last_obs, "action": policy.last_action, "target": targets}
    places = {
        "observation": list(policy.term_names()),
        "action": policy.description["joint_names"],
        "target": policy.joint_names,
    }
    for boundary, values in own.items():
        recorded = trace[boundary][step]
        if values is None or values.shape != recorded.shape:
            raise ValueError(f"the trace has {recorded.size} numbers of each {boundary}; it is of another policy")
        difference = np.abs(values - recorded)
        if not (difference <= TRACE_TOLERANCE).all():
            worst = int(np.argmax(np.where(np.isnan(difference), np.inf, difference)))
            return TraceDifference(boundary, places[boundary][worst], step, float(difference[worst]))
    return None


def check(policy: Policy, trace: Mapping[str, np.ndarray], where: Path) -> int:
    """Replay a trace, print what differs and the time per step, and return the exit code."""
    first, seconds = replay_trace(policy, trace)
    median, largest = 1e3 * np.median(seconds), 1e3 * seconds.max()
    period = 1e3 * policy.control_period
    print(f"time per step: median {median:.3f} ms, largest {largest:.3f} ms; the control period is {period:g} ms")
    if first is None:
        print(f"{len(seconds)} steps agree with {where}, observation, action and target, to {TRACE_TOLERANCE:g}")
        return 0
    place = "of " if first.boundary == "observation" else "at "
    print(f"{first.boundary} {place}{first.place} differs first, in step {first.step}, by {first.difference:.3g}")
    return 1
