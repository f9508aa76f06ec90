"""Compute observations, actions and targets again from a log's readings, and say what differs."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Protocol, Sequence, Tuple

import numpy as np

from rsl_rl.evaluation.doctor.finding import Finding
from rsl_rl.evaluation.doctor.log import Log
from rsl_rl.evaluation.doctor.replay import gravity, rotate, rotate_back

TOLERANCE = 1e-3
"""Largest difference of a number of the observation, an action or a joint target [rad]."""

_SHARE = 0.98
"""Share of the rows that an explanation must explain."""

Network = Callable[..., Sequence[np.ndarray]]


class Runner(Protocol):
    """The policy's own runner, rsl_rl_deploy.onnx_policy.Policy."""

    last_action: np.ndarray

    @property
    def observe(self) -> Callable[..., np.ndarray]: ...

    def reset(self) -> None: ...

    def __call__(self, **readings: Any) -> np.ndarray: ...


class Expected(NamedTuple):
    """What a log should contain; NaN in rows that the runner refuses or that lack what is needed."""

    observation: np.ndarray  # [T, D] from the readings and the logged actions
    action: np.ndarray  # [T, A] from the logged observations
    target: np.ndarray  # [T, J] from the logged actions, in the robot's order
    refused: int
    reason: str


def recompute(log: Log, runner: Runner, network: Network, description: Mapping[str, Any]) -> Expected:
    """Compute each row again; each starts from the logged last action, so a difference stays where it arises."""
    rows, starts = len(log.time), log.starts
    action_clip = description.get("action_clip") or math.inf
    observation = np.full((rows, description["inputs"]["obs"][-1]), np.nan)
    target = np.full(log.target.shape, np.nan)
    refused, reason, given = 0, "", robot_readings(log, description)
    for t in range(rows):
        if starts[t]:
            runner.reset()
        elif log.action is not None and np.isfinite(log.action[t - 1]).all():
            runner.last_action = log.action[t - 1].astype(np.float32)
        readings = {name: values[t] for name, values in given.items() if np.isfinite(values[t]).all()}
        try:
            observation[t] = runner.observe(**readings)
            runner(**readings)
        except ValueError as error:
            if len(readings) == len(given):  # a reading that is missing is a note on the log
                refused, reason = refused + 1, reason or str(error)
    scale, default = np.array(description["action_scale"]), np.array(description["default_joint_pos"])
    order = [list(description["joint_names"]).index(name) for name in log.joint_names]
    if log.action is not None:
        target = default + scale * np.clip(log.action, -action_clip, action_clip)
        if description.get("target_limits") is not None:
            target = np.clip(target, *np.array(description["target_limits"]).T)
        target = to_robot(description, target)[:, order]
    shapes = [shape for name, shape in description["inputs"].items() if name != "obs"]
    action = replay_network(log, network, shapes, action_clip, starts)
    return Expected(observation, action, target, refused, reason)


def robot_readings(log: Log, description: Mapping[str, Any]) -> Dict[str, np.ndarray]:
    """Return the readings of a log in the units and in the order of the quaternion that the robot has, [T, k]."""
    readings = dict(log.readings)
    for name, unit in description.get("units", {}).items():
        if unit.startswith("deg") and name in readings:
            readings[name] = np.degrees(readings[name])
    if description.get("quaternion_order") == "xyzw" and "base_quat" in readings:
        readings["base_quat"] = readings["base_quat"][:, [1, 2, 3, 0]]
    return readings


def to_robot(description: Mapping[str, Any], angles: np.ndarray) -> np.ndarray:
    """Return the robot's angles [rad] of the policy's."""
    return angles * np.array(description.get("joint_signs", 1.0)) + np.array(description.get("joint_zeros", 0.0))


def replay_network(
    log: Log, network: Network, shapes: Sequence[Sequence[int]], clip: float, resets: np.ndarray
) -> np.ndarray:
    """Return the network's actions for the logged observations, with the memory cleared where ``resets`` says."""
    if log.observation is None or log.action is None:
        return np.full((len(log.time), 1), np.nan)
    actions = np.full(log.action.shape, np.nan)
    memories: List[np.ndarray] = [np.zeros(shape, np.float32) for shape in shapes]
    for t, obs in enumerate(log.observation.astype(np.float32)):
        if resets[t]:
            memories = [np.zeros(shape, np.float32) for shape in shapes]
        if np.isfinite(obs).all():
            out, *memories = network(obs[None], *memories)
            actions[t] = np.clip(out[0], -clip, clip)
    return actions


def findings_of_recompute(
    log: Log, network: Network, description: Mapping[str, Any], expected: Expected
) -> List[Finding]:
    """Return what differs between a log and what is computed again."""
    found = []
    rows = len(log.time)
    if expected.refused > 0.02 * rows:
        share = expected.refused / rows
        found.append(
            Finding(
                "readings refused",
                "reading",
                "the policy cannot use the readings",
                f"in {expected.refused} of {rows} rows, first: {expected.reason}",
                min(0.99, 0.5 + share),
            )
        )
    if log.observation is not None:
        found += _observation(log, description, expected)
    if log.action is not None and log.observation is not None:
        found += _action(log, network, description, expected)
    if log.action is not None:
        found += _target(log, expected)
    return found


def _observation(log: Log, description: Mapping[str, Any], expected: Expected) -> Iterator[Finding]:
    """Yield a finding for each term that differs, or one for all if one clip explains them."""
    assert log.observation is not None
    whole_logged, whole = log.observation, expected.observation
    clip = _clip(whole, whole_logged)
    if clip is not None:
        sentence = f"the observation is clipped to {clip:.3g}"
        yield _finding("clipped input", "observation", sentence, log, whole_logged, whole, "")
        return
    start = 0
    for term in description["observations"]:
        name, size, history = term["name"], term["size"], term.get("history", 1)
        part = slice(start, start + size * history)
        start += size * history
        own, logged = whole[:, part], whole_logged[:, part]
        if not _differs(own, logged):
            continue
        joints = list(description["joint_names"]) if term.get("frame") == "joint" else None
        explained = _history(own, logged, size, history) or _frames(log, name, term, own, logged)
        kind, sentence = explained or explain(own, logged, joints, log.starts, _scale(term), _offset(description, term))
        if name == "gravity" and kind == "sign":
            kind, sentence = "gravity flipped", "gravity points up in the observation"
        elif name == "command" and kind == "scale":
            kind = "command scale"
        yield _finding(kind, "observation", f"{name}: {sentence}", log, logged, own, name)


def _scale(term: Mapping[str, Any]) -> float:
    scale = term.get("scale", 1.0)
    return float(scale) if isinstance(scale, (int, float)) else 1.0


def _offset(description: Mapping[str, Any], term: Mapping[str, Any]) -> Optional[np.ndarray]:
    if term["name"] != "joint_pos" or term.get("history", 1) != 1:
        return None
    return np.array(description["default_joint_pos"]) * np.array(term.get("scale", 1.0))


def _history(own: np.ndarray, logged: np.ndarray, size: int, history: int) -> Optional[Tuple[str, str]]:
    """Return whether the steps of a history are in another order."""
    if history == 1:
        return None
    steps = own.reshape(len(own), history, size)
    if not _differs(steps[:, ::-1].reshape(own.shape), logged):
        return "history order", "the newest step is first, the policy's oldest is"
    if not _differs(steps.transpose(0, 2, 1).reshape(own.shape), logged):
        return "history order", "number after number with its steps, not step after step"
    return None


def _frames(
    log: Log, name: str, term: Mapping[str, Any], own: np.ndarray, logged: np.ndarray
) -> Optional[Tuple[str, str]]:
    """Return whether a vector is in another frame, or of another quaternion."""
    quat = log.readings.get("base_quat")
    if quat is None or name not in ("gravity", "base_ang_vel", "base_lin_vel") or term.get("history", 1) != 1:
        return None
    scale = np.array(term.get("scale", 1.0))
    length = np.linalg.norm(quat, axis=1, keepdims=True)
    unit = quat / np.where(length > 0, length, 1.0)
    if name == "gravity":
        others = {
            ("quaternion order", "of a quaternion read as x y z w"): scale * gravity(unit[:, [3, 0, 1, 2]]),
            ("quaternion order", "of the quaternion with w moved to the end"): scale * gravity(unit[:, [1, 2, 3, 0]]),
            ("quaternion inverse", "of the inverse quaternion"): scale * gravity(unit * [1, -1, -1, -1]),
            ("world frame", "in the world frame"): np.broadcast_to(scale * [0.0, 0.0, -1.0], own.shape),
        }
    else:
        others = {
            ("world frame", "in the world frame"): rotate(unit, own),
            ("world frame", "turned into the base frame twice"): rotate_back(unit, own),
        }
    return next((text for text, vectors in others.items() if not _differs(np.asarray(vectors), logged)), None)


def _action(log: Log, network: Network, description: Mapping[str, Any], expected: Expected) -> Iterator[Finding]:
    assert log.action is not None
    own, logged = expected.action, log.action
    if not _differs(own, logged):
        return
    shapes = [shape for name, shape in description["inputs"].items() if name != "obs"]
    clip = description.get("action_clip") or math.inf
    if shapes:
        never = np.arange(len(log.time)) == 0
        variants = {"is not reset between episodes": never, "is reset in every step": np.ones(len(logged), bool)}
        for text, resets in variants.items():
            if not _differs(replay_network(log, network, shapes, clip, resets), logged):
                yield _finding("memory", "action", f"the memory of the network {text}", log, logged, own, "action")
                return
    kind, sentence = explain(own, logged, list(description["joint_names"]), log.starts)
    if kind == "unknown":
        kind, sentence = "other network", "the actions are not those of this network for the logged observations"
    yield _finding(kind, "action", sentence, log, logged, own, "action")


def _target(log: Log, expected: Expected) -> Iterator[Finding]:
    own, logged = expected.target, log.target
    if not _differs(own, logged):
        return
    kind, sentence = explain(own, logged, list(log.joint_names), log.starts)
    if kind in ("unknown", "offset"):
        center = np.nanmean(own, axis=0)
        ratio = _ratio(own - center, logged - np.nanmean(logged, axis=0))
        if ratio is not None:
            kind, sentence = "action scale", f"actions move the targets {ratio:.3g} times as far as the policy's"
    yield _finding(kind, "target", sentence, log, logged, own, "target")


def _rows(own: np.ndarray, logged: np.ndarray) -> np.ndarray:
    return np.asarray(np.isfinite(own).all(axis=1) & np.isfinite(logged).all(axis=1))


def _differs(own: np.ndarray, logged: np.ndarray) -> bool:
    """Return whether more rows differ than a few; rows that are not finite do not count."""
    rows = _rows(own, logged)
    if not rows.any():
        return False
    allowed = TOLERANCE * (1.0 + np.abs(own[rows]))
    return bool(((np.abs(own[rows] - logged[rows]) > allowed).any(axis=1)).mean() > 1 - _SHARE)


def _ratio(own: np.ndarray, logged: np.ndarray) -> Optional[float]:
    """Return the number that turns expected into logged values, or None."""
    rows = _rows(own, logged)
    power = float((own[rows] ** 2).sum())
    if power < 1e-12:
        return None
    ratio = float((own[rows] * logged[rows]).sum() / power)
    return ratio if abs(ratio) > 1e-3 and not _differs(ratio * own, logged) else None


def _clip(own: np.ndarray, logged: np.ndarray) -> Optional[float]:
    """Return the limit at which the logged values are cut off, or None."""
    rows = _rows(own, logged)
    if not rows.any() or not _differs(own, logged):
        return None
    largest = float(np.abs(logged[rows]).max())
    return largest if largest > 0 and not _differs(own.clip(-largest, largest), logged) else None


def explain(
    own: np.ndarray,
    logged: np.ndarray,
    names: Optional[Sequence[str]],
    starts: np.ndarray,
    scale: float = 1.0,
    offset: Optional[np.ndarray] = None,
) -> Tuple[str, str]:
    """Return kind and sentence of the transformation from expected to logged values [T, k], or "unknown"."""
    ratio = _ratio(own, logged)
    if ratio is not None:
        if abs(ratio + 1.0) < 0.01:
            return "sign", "all signs are wrong"
        for factor, text in ((math.degrees(1.0), "degrees"), (math.radians(1.0), "degrees")):
            if abs(ratio / factor - 1.0) < 0.01:
                return text, f"{ratio:.3g} times too large: degrees and radians are confused"
        missing = " (its scale is missing)" if abs(ratio * scale - 1.0) < 0.01 else ""
        return "scale", f"{ratio:.3g} times the policy's{missing}"
    if offset is not None and not _differs(own + offset, logged):
        return "offset", "the default joint positions are not subtracted"
    for steps in (1, 2, 3):
        late = np.full_like(own, np.nan)
        late[steps:] = own[:-steps]
        for back in range(steps):
            late[back:][starts[: len(late) - back]] = np.nan
        if not _differs(late, logged):
            return "late action", f"{steps} control step{'s' * (steps > 1)} late"
    clip = _clip(own, logged)
    if clip is not None:
        return "clipped input", f"clipped to {clip:.3g}"
    columns = _columns(own, logged)
    if columns is not None:
        order, signs = columns
        labels = [str(i) for i in range(own.shape[1])] if names is None else list(names)
        if own.shape[1] == len(labels):
            wrong = [labels[i] for i in range(len(order)) if signs[i] < 0]
            if (order == np.arange(len(order))).all() and wrong:
                return "joint sign" if names else "sign", f"the sign of {', '.join(wrong)} is wrong"
            moved = [f"{labels[order[i]]} is in the place of {labels[i]}" for i in range(len(order)) if order[i] != i]
            listed = ", ".join(moved[:4]) + ", ..." * (len(moved) > 4)
            return "joint order" if names else "order", f"another order: {listed}"
    constant = _constant(own, logged)
    if constant is not None:
        return "offset", f"it differs by the constant {np.array2string(constant, precision=3, max_line_width=10**6)}"
    return "unknown", "it differs, and no simple transformation explains how"


def _columns(own: np.ndarray, logged: np.ndarray) -> Optional[Tuple[np.ndarray, np.ndarray]]:
    """Return for each logged column the expected one that it equals, and the sign; None if one has none."""
    rows = _rows(own, logged)
    own, logged = own[rows], logged[rows]
    if not len(own):
        return None
    order, signs = np.zeros(logged.shape[1], int), np.ones(logged.shape[1])
    for i in range(logged.shape[1]):
        costs = np.stack([(np.abs(logged[:, i, None] - s * own) < 3 * TOLERANCE).mean(axis=0) for s in (1.0, -1.0)])
        costs[0, i] += 0.01  # where several fit, its own
        best = np.unravel_index(int(costs.argmax()), costs.shape)
        if costs[best] < _SHARE:
            return None
        order[i], signs[i] = best[1], 1.0 if best[0] == 0 else -1.0
    return (order, signs) if len(set(order.tolist())) == len(order) else None


def _constant(own: np.ndarray, logged: np.ndarray) -> Optional[np.ndarray]:
    rows = _rows(own, logged)
    difference = np.median((logged - own)[rows], axis=0)
    return None if _differs(own + difference, logged) else difference


def _finding(
    kind: str, boundary: str, sentence: str, log: Log, logged: np.ndarray, expected: np.ndarray, label: str
) -> Finding:
    rows = _rows(expected, logged)
    difference = np.where(rows[:, None], np.abs(logged - expected), 0.0)
    worst = int(difference.max(axis=0).argmax())
    first = int(np.flatnonzero((difference > TOLERANCE * (1 + np.abs(expected))).any(axis=1))[0])
    share = float((difference[rows] > TOLERANCE).any(axis=1).mean())
    evidence = f"{share:.0%} of the rows differ, first row {first + 2}, by up to {difference.max():.3g}"
    return Finding(
        kind,
        boundary,
        sentence,
        evidence,
        0.6 if kind == "unknown" else 0.99,
        traces={
            "time": log.time - log.time[0],
            "logged": logged[:, worst],
            "expected": expected[:, worst],
            "label": f"{boundary} {label} {worst}".replace("  ", " "),
        },
    )
