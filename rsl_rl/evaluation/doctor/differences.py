"""Say what differs between a log and what is computed again from its readings."""

from __future__ import annotations

import math
from typing import Any, Iterator, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from rsl_rl.evaluation.doctor.finding import Finding
from rsl_rl.evaluation.doctor.log import Log
from rsl_rl.evaluation.doctor.recompute import TOLERANCE, Expected, Network, replay_network, targets_of
from rsl_rl.evaluation.doctor.replay import gravity, rotate, rotate_back

REFUSED = "readings refused"
"""Kind of a finding that only says that the runner did not accept the readings."""

_SHARE = 0.98
"""Share of the rows that an explanation must explain."""

Explanation = Tuple[str, str]
"""Kind and sentence of a finding."""


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
                REFUSED,
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
        found += _target(log, description, log.action, expected)
    return found


def _observation(log: Log, description: Mapping[str, Any], expected: Expected) -> Iterator[Finding]:
    """Yield a finding for each term that differs, and one for all that are cut off at the same number."""
    assert log.observation is not None
    whole_logged, whole = log.observation, expected.observation
    limit = _limit(whole_logged)
    is_clipped, start = False, 0
    for term in description["observations"]:
        name, size = term["name"], term["size"] * term.get("history", 1)
        part, start = slice(start, start + size), start + size
        own, logged = whole[:, part], whole_logged[:, part]
        if not _differs(own, logged):
            continue
        if not _differs(_cut(own, limit), logged):
            is_clipped = True
            continue
        explained = _explain_term(log, description, term, own, logged, math.inf)
        if explained[0][0] == "unknown" and limit < math.inf:
            explained = _explain_term(log, description, term, own, logged, limit)
            is_clipped |= explained[0][0] != "unknown"
        for kind, sentence in explained:
            yield _finding(kind, "observation", f"{name}: {sentence}", log, logged, own, name)
    if is_clipped:
        sentence = f"the observation is clipped to {limit:.3g}"
        yield _finding("clipped input", "observation", sentence, log, whole_logged, whole, "")


def _explain_term(
    log: Log, description: Mapping[str, Any], term: Mapping[str, Any], own: np.ndarray, logged: np.ndarray, limit: float
) -> List[Explanation]:
    """Return what turns a term of the observation into the logged one, which is cut off at a limit."""
    name = term["name"]
    known = _history(own, logged, term["size"], term.get("history", 1), limit) or _frames(
        log, name, term, own, logged, limit
    )
    if known:
        return [known]
    joints = list(description["joint_names"]) if term.get("frame") == "joint" else None
    found = explain(own, logged, joints, log.starts, _scale(term), _offset(description, term), limit)
    if name == "gravity":
        flipped = ("gravity flipped", "gravity points up in the observation")
        return [flipped if kind == "sign" else (kind, sentence) for kind, sentence in found]
    if name == "command":
        return [("command scale" if kind == "scale" else kind, sentence) for kind, sentence in found]
    return found


def _scale(term: Mapping[str, Any]) -> float:
    scale = term.get("scale", 1.0)
    return float(scale) if isinstance(scale, (int, float)) else 1.0


def _offset(description: Mapping[str, Any], term: Mapping[str, Any]) -> Optional[np.ndarray]:
    if term["name"] != "joint_pos" or term.get("history", 1) != 1:
        return None
    return np.array(description["default_joint_pos"]) * np.array(term.get("scale", 1.0))


def _history(own: np.ndarray, logged: np.ndarray, size: int, history: int, limit: float) -> Optional[Explanation]:
    """Return whether the steps of a history are in another order."""
    if history == 1:
        return None
    steps = _cut(own, limit).reshape(len(own), history, size)
    if not _differs(steps[:, ::-1].reshape(own.shape), logged):
        return "history order", "the newest step is first, the policy's oldest is"
    if not _differs(steps.transpose(0, 2, 1).reshape(own.shape), logged):
        return "history order", "number after number with its steps, not step after step"
    return None


def _frames(
    log: Log, name: str, term: Mapping[str, Any], own: np.ndarray, logged: np.ndarray, limit: float
) -> Optional[Explanation]:
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
    return next((text for text, vectors in others.items() if not _differs(_cut(vectors, limit), logged)), None)


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
    for kind, sentence in explain(own, logged, list(description["joint_names"]), log.starts):
        if kind == "unknown":
            kind, sentence = "other network", "the actions are not those of this network for the logged observations"
        yield _finding(kind, "action", sentence, log, logged, own, "action")


def _target(log: Log, description: Mapping[str, Any], action: np.ndarray, expected: Expected) -> Iterator[Finding]:
    own, logged = expected.target, log.target
    if not _differs(own, logged):
        return
    ratio = _action_ratio(log, description, action)
    if ratio is None:
        explained = explain(own, logged, list(log.joint_names), log.starts)
    else:
        explained = [("action scale", f"actions move the targets {ratio:.3g} times as far as the policy's")]
    for kind, sentence in explained:
        yield _finding(kind, "target", sentence, log, logged, own, "target")


def _action_ratio(log: Log, description: Mapping[str, Any], action: np.ndarray) -> Optional[float]:
    """Return the factor on the action scale with which the targets are as logged, or None."""
    center, plain = (targets_of(log, action, {**description, "target_limits": None}, factor) for factor in (0.0, 1.0))
    moved = np.abs(plain - center) > 0.02
    if not moved.any():
        return None
    ratio = float(np.nanmedian((log.target - center)[moved] / (plain - center)[moved]))
    return None if _differs(targets_of(log, action, description, ratio), log.target) else ratio


def _rows(own: np.ndarray, logged: np.ndarray) -> np.ndarray:
    return np.asarray(np.isfinite(own).all(axis=1) & np.isfinite(logged).all(axis=1))


def _differs(own: np.ndarray, logged: np.ndarray) -> bool:
    """Return whether more rows differ than a few; rows that are not finite do not count."""
    rows = _rows(own, logged)
    if not rows.any():
        return False
    allowed = TOLERANCE * (1.0 + np.abs(own[rows]))
    return bool(((np.abs(own[rows] - logged[rows]) > allowed).any(axis=1)).mean() > 1 - _SHARE)


def _cut(values: np.ndarray, limit: float) -> np.ndarray:
    return np.asarray(values) if limit == math.inf else np.clip(values, -limit, limit)


def _ratio(own: np.ndarray, logged: np.ndarray, limit: float = math.inf) -> Optional[float]:
    """Return the number that turns expected into logged values, which are cut off at a limit, or None."""
    rows = _rows(own, logged)
    inside = np.abs(logged[rows]) < 0.999 * limit
    known, given = own[rows][inside], logged[rows][inside]
    power = float((known**2).sum())
    if power < 1e-12:
        return None
    ratio = float((known * given).sum() / power)
    return ratio if abs(ratio) > 1e-3 and not _differs(_cut(ratio * own, limit), logged) else None


def _limit(logged: np.ndarray) -> float:
    """Return the largest logged number if many rows have it, so that it may be a limit; infinity otherwise."""
    size = np.abs(logged[np.isfinite(logged).all(axis=1)])
    if not size.size or not size.max() > 0:
        return math.inf
    at = np.asarray(np.isclose(size, size.max(), rtol=1e-6).any(axis=1))
    return float(size.max()) if at.sum() >= max(3, 0.01 * len(at)) else math.inf


def explain(
    own: np.ndarray,
    logged: np.ndarray,
    names: Optional[Sequence[str]],
    starts: np.ndarray,
    scale: float = 1.0,
    offset: Optional[np.ndarray] = None,
    limit: float = math.inf,
) -> List[Explanation]:
    """Return kind and sentence of the transformations from expected to logged values [T, k], or "unknown".

    The logged values are cut off at the limit.
    """
    ratio = _ratio(own, logged, limit)
    if ratio is not None:
        return _explain_ratio(ratio, scale)
    if offset is not None and not _differs(_cut(own + offset, limit), logged):
        return [("offset", "the default joint positions are not subtracted")]
    for steps in (1, 2, 3):
        late = np.full_like(own, np.nan)
        late[steps:] = own[:-steps]
        for back in range(steps):
            late[back:][starts[: len(late) - back]] = np.nan
        if not _differs(_cut(late, limit), logged):
            return [("late action", f"{steps} control step{'s' * (steps > 1)} late")]
    clip = _limit(logged)
    if clip < math.inf and not _differs(_cut(own, clip), logged):
        return [("clipped input", f"clipped to {clip:.3g}")]
    columns = _columns(_cut(own, limit), logged)
    if columns is not None:
        return [_explain_columns(*columns, names)]
    constant = _constant(own, logged)
    if constant is not None:
        shown = np.array2string(constant, precision=3, max_line_width=10**6)
        return [("offset", f"it differs by the constant {shown}")]
    return [("unknown", "it differs, and no simple transformation explains how")]


def _explain_ratio(ratio: float, scale: float) -> List[Explanation]:
    """Return what a factor on all numbers means: degrees, signs, or another scale."""
    for factor in (math.degrees(1.0), math.radians(1.0)):
        if abs(ratio / factor - 1.0) < 0.01:
            return [("degrees", f"{ratio:.3g} times too large: degrees and radians are confused")]
    found = [("sign", "all signs are wrong")] if ratio < 0 else []
    size = abs(ratio)
    if not found or abs(size - 1.0) > 0.01:
        missing = " (its scale is missing)" if abs(size * scale - 1.0) < 0.01 else ""
        found.append(("scale", f"{size:.3g} times the policy's{missing}"))
    return found


def _explain_columns(order: np.ndarray, signs: np.ndarray, names: Optional[Sequence[str]]) -> Explanation:
    """Return which numbers have another sign, or are in the place of others."""
    labels = [str(i) for i in range(len(order))] if names is None or len(names) != len(order) else list(names)
    prefix = "joint " if names else ""
    wrong = [labels[i] for i in range(len(order)) if signs[i] < 0]
    if (order == np.arange(len(order))).all() and wrong:
        return prefix + "sign", f"the sign of {', '.join(wrong)} is wrong"
    moved = [f"{labels[order[i]]} is in the place of {labels[i]}" for i in range(len(order)) if order[i] != i]
    return prefix + "order", f"another order: {', '.join(moved[:4])}{', ...' * (len(moved) > 4)}"


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
