"""Find the corrections of a log with which the model of the robot predicts its motion best."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from rsl_rl.evaluation.doctor.faults import Correction, Fault, faults, turned
from rsl_rl.evaluation.doctor.finding import Finding
from rsl_rl.evaluation.doctor.replay import HORIZON, NOMINAL, Actuation, Motion, Replay, joined, window

SCALES = (0.02, 0.8, 0.3, 0.01)
"""Sizes of prediction errors beyond which they count less: joints [rad, rad/s], gyro [rad/s], gravity [1]."""

ROUNDS = ((4, 40), (12, 10), (40, 4))
"""Steps from which every explanation is tried, and how many of the best go on to the next round."""

HOPELESS = 1.15
"""Cost of an explanation, relative to that of the log as it is, with which it is left out of the next round."""

FINAL_STEPS = 120
LEAST_STEPS = 6
"""Steps without which nothing is said of the motion."""

LEAST_GAIN, LEAST_SHARE = 0.03, 0.1
"""Least decrease of the cost by a correction, and that relative to the cost."""

LEAST_SIGMA = 5.0
"""Least decrease of the cost in standard errors."""

UNEXPLAINED = 0.75
"""Cost of the best explanation above which the log is of another robot; healthy ones are at 0.1 to 0.3."""

CHAIN = 0.1
"""By how much this cost is less for each correction after the first; three can make one robot a little like another."""

MAX_FAULTS = 3

SIMPLER = 1.1
"""Factor by which an explanation must be better for each further correction."""

ONCE = {"torque limit", "late action", "IMU turned", "quaternion order", "quaternion inverse"}
"""Kinds of faults that a robot has once."""

MOST_GAIN = 8.0
"""Largest factor between the gains of a robot and the policy's, and between damping and stiffness, of all corrections
together."""

LEAST_SPEED = 0.5
"""Speed that half of the joints reach in a tenth of the steps of a robot that moves [rad/s]; of one that stands, more
damping only takes the noise of the velocities out of the predictions."""

DOUBT, RIVALS = 0.33, 2
"""Cost of an explanation above which others are tried first, and how many."""

_FAR = 0.3
"""Cost above which a turn of the IMU may be large."""

NEAR, FAR = (2.0, 1.0, 1.0, 1.0), (4.0, 4.0, 4.0, 4.0, 4.0, 2.0, 2.0, 1.0, 1.0)
"""Sizes of errors that still count, in SCALES, of one step of Newton's method after the other: where little is wrong,
and where much is."""

CONVERGED = 0.003
"""Step of Newton's method [rad] after which no further one follows."""

ZERO, ASKEW, GAIN = 0.06, math.radians(4.0), math.log(1.3)
"""Least sizes of a wrong zero [rad], of a mounting [rad], and of the logarithm of a factor of the gains."""


class Candidate(NamedTuple):
    fault: Fault
    costs: np.ndarray  # [n] of the final steps

    @property
    def cost(self) -> float:
        return float(self.costs.mean())


class Verdict(NamedTuple):
    """What the motion says."""

    findings: List[Finding]
    cost: float  # of the log as it is
    explained: float  # of the log with all corrections
    steps: int
    is_explained: bool  # whether the corrections, or none, leave the motion of the policy's robot


@dataclass(frozen=True)
class Parameters:
    """Small corrections: zeros of the joints, a turn of the IMU, factors of the gains."""

    zeros: np.ndarray  # [J] [rad]
    turn: np.ndarray  # [3] rotation vector [rad]
    gains: np.ndarray  # [2] logarithms of the factors of stiffness and damping

    @staticmethod
    def unpack(vector: np.ndarray) -> Parameters:
        return Parameters(vector[:-5], vector[-5:-2], vector[-2:])


class State(NamedTuple):
    """A log with the corrections so far."""

    motion: Motion
    actuation: Actuation
    costs: np.ndarray  # [n] of the final steps
    findings: Tuple[Finding, ...] = ()


def search(replay: Replay, motion: Motion, steps: np.ndarray, joint_names: Sequence[str]) -> Verdict:
    """Return the corrections that explain the motion, the most helpful first.

    ``steps`` are the rows from which a prediction can start.
    """
    looking = Search(replay, steps, joint_names, moves(motion, steps))
    start = State(motion, NOMINAL, costs(replay, motion, looking.final, NOMINAL))
    best, others = looking.explanations(start)
    end, rivals = start, [one for one in _distinct(best, others) if _helps(start.costs, one.costs)][:RIVALS]
    if _helps(start.costs, best.costs):
        end = looking.follow(looking.corrected(start, best, others))
    if end.costs.mean() > DOUBT:  # the first correction may be a wrong one, or help only together with another
        firsts = {one.fault.sentence: one for one in [*rivals, *looking.hidden(start)]}
        ends = [looking.follow(looking.corrected(start, one, [])) for one in firsts.values()]
        helpful = [one for one in ends if _helps(start.costs, one.costs)]
        end = min([end, *helpful], key=lambda one: float(one.costs.mean()) * SIMPLER ** len(one.findings))
    return looking.verdict(start, end)


def moves(motion: Motion, steps: np.ndarray) -> bool:
    """Return whether the joints move enough to tell their damping."""
    return float(np.median(np.percentile(np.abs(motion.joint_vel[steps]), 90, axis=0))) > LEAST_SPEED


class Search:
    """What stays the same while a log is corrected."""

    def __init__(self, replay: Replay, steps: np.ndarray, joint_names: Sequence[str], is_moving: bool):
        self.replay, self.steps, self.joint_names = replay, steps, joint_names
        self.known = faults(joint_names, replay.legs())
        self.rng = np.random.default_rng(0)
        self.final = np.sort(self.rng.permutation(steps)[:FINAL_STEPS])
        self.moves = is_moving

    def explanations(self, state: State) -> Tuple[Candidate, List[Candidate]]:
        """Return the best explanation of what is left, and the best others."""
        named = {finding.kind for finding in state.findings} & ONCE
        known = [fault for fault in self.known if fault.kind not in named and self.is_told(state.actuation, fault)]
        return _best(
            self.replay,
            state.motion,
            state.actuation,
            self.steps,
            self.final,
            known,
            self.joint_names,
            self.rng,
            self.is_told,
        )

    def is_told(self, actuation: Actuation, fault: Fault) -> bool:
        """Return whether the motion can tell a fault, and the gains with it are plausible."""
        return (self.moves or fault.actuation.damping == 1.0) and _is_plausible(combine(actuation, fault.actuation))

    def hidden(self, state: State) -> List[Candidate]:
        """Return the explanations that another fault may hide: in a wrong quaternion a turn of the IMU is not seen, and
        a turn alone helps little where the gains are wrong too."""
        found = []
        for kind in ("quaternion order", "IMU turned"):
            able = [fault for fault in self.known if fault.kind == kind]
            changes = [(fault.correct, state.actuation) for fault in able]
            best = able[int(many_costs(self.replay, state.motion, self.final[::3], changes).argmin())]
            found.append(Candidate(best, costs(self.replay, best.correct(state.motion), self.final, state.actuation)))
        return found

    def corrected(self, state: State, best: Candidate, others: Sequence[Candidate]) -> State:
        """Return a state with a further correction."""
        finding = _finding(best, others, state.costs, self.replay, state.motion, state.actuation, self.final)
        actuation = combine(state.actuation, best.fault.actuation)
        return State(best.fault.correct(state.motion), actuation, best.costs, (*state.findings, finding))

    def follow(self, state: State) -> State:
        """Correct a state as long as it helps."""
        while len(state.findings) < MAX_FAULTS:
            best, others = self.explanations(state)
            if not _helps(state.costs, best.costs):
                break
            state = self.corrected(state, best, others)
        return state

    def verdict(self, start: State, end: State) -> Verdict:
        cost = float(end.costs.mean())
        is_explained = cost <= UNEXPLAINED - CHAIN * max(0, len(end.findings) - 1)
        found = list(end.findings) if is_explained else [_unexplained(end.costs)]
        return Verdict(found, float(start.costs.mean()), cost, len(self.final), is_explained)


def _helps(before: np.ndarray, after: np.ndarray) -> bool:
    """Return whether a correction makes the costs [n] clearly smaller."""
    gain, sigma = _decrease(before, after)
    return gain >= max(LEAST_GAIN, LEAST_SHARE * float(before.mean())) and sigma >= LEAST_SIGMA


def _distinct(best: Candidate, others: Sequence[Candidate]) -> List[Candidate]:
    """Return the best of each further kind."""
    kinds, found = {best.fault.kind}, []
    for one in others:
        if one.fault.kind not in kinds:
            kinds.add(one.fault.kind)
            found.append(one)
    return found


def _is_plausible(actuation: Actuation) -> bool:
    """Return whether gains are wrong by a factor that a mistake in a file makes, and not those of another robot."""
    stiffness, damping = actuation.stiffness, actuation.damping
    return all(1 / MOST_GAIN <= factor <= MOST_GAIN for factor in (stiffness, damping, damping / stiffness))


def combine(a: Actuation, b: Actuation) -> Actuation:
    return Actuation(a.stiffness * b.stiffness, a.damping * b.damping, a.torque * b.torque, a.delay + b.delay)


def scales(num_joints: int) -> np.ndarray:
    return np.repeat(SCALES, (num_joints, num_joints, 3, 3))


def costs(
    replay: Replay, motion: Motion, steps: np.ndarray, actuation: Actuation, is_coarse: bool = False
) -> np.ndarray:
    """Return the cost of the predictions from each step, [n]; large errors count little more than others."""
    errors = replay.residuals(motion, steps, actuation, is_coarse) / scales(motion.joint_pos.shape[1])
    errors = np.nan_to_num(errors, nan=1e6, posinf=1e6, neginf=-1e6).clip(-1e6, 1e6)
    return np.log1p(errors**2).mean(axis=(1, 2))


def many_costs(
    replay: Replay, motion: Motion, steps: np.ndarray, changes: Sequence[Tuple[Correction, Actuation]]
) -> np.ndarray:
    """Return the mean cost with each change of the motion, [changes], with a coarse prediction."""
    short, at = window(motion, steps)
    groups: Dict[Actuation, List[int]] = {}
    for i, (_, actuation) in enumerate(changes):
        groups.setdefault(actuation, []).append(i)
    found = np.empty(len(changes))
    for actuation, members in groups.items():
        whole = joined([changes[i][0](short) for i in members])
        places = (at + len(short.targets) * np.arange(len(members))[:, None]).ravel()
        found[members] = costs(replay, whole, places, actuation, True).reshape(len(members), -1).mean(axis=1)
    return found


def _decrease(before: np.ndarray, after: np.ndarray) -> Tuple[float, float]:
    """Return the mean decrease of costs [n], and the same in standard errors."""
    difference = before - after
    error = difference.std() / math.sqrt(max(1, len(difference) - 1)) + 1e-9
    return float(difference.mean()), float(difference.mean() / error)


def _best(
    replay: Replay,
    motion: Motion,
    actuation: Actuation,
    steps: np.ndarray,
    final: np.ndarray,
    known: Sequence[Fault],
    joint_names: Sequence[str],
    rng: np.random.Generator,
    is_told: Callable[[Actuation, Fault], bool],
) -> Tuple[Candidate, List[Candidate]]:
    """Return the best explanation and the best others."""
    left = list(known)
    for count, kept in ROUNDS:
        at = np.sort(rng.permutation(steps)[:count])
        changes = [(fault.correct, combine(actuation, fault.actuation)) for fault in left]
        first, *rest = many_costs(replay, motion, at, [(lambda m: m, actuation), *changes])
        ranked = sorted((cost, i) for i, cost in enumerate(rest))
        left = [left[i] for cost, i in ranked[:kept] if cost < HOPELESS * first or i == ranked[0][1]]
    small = _small(replay, motion, actuation, np.sort(rng.permutation(steps)[:40]), joint_names)
    left += [fault for fault in small if is_told(actuation, fault)]
    candidates = [
        Candidate(fault, costs(replay, fault.correct(motion), final, combine(actuation, fault.actuation)))
        for fault in left
    ]
    best, *others = sorted(candidates, key=lambda one: one.cost)
    return best, others


def _small(
    replay: Replay, motion: Motion, actuation: Actuation, steps: np.ndarray, joint_names: Sequence[str]
) -> List[Fault]:
    """Return the small corrections that help most: of one joint's zero, of the IMU's mounting, or of the gains."""
    found = []
    for vector, subset, widths in _starts(replay, motion, actuation, steps, len(joint_names)):
        for width in widths:
            errors, slopes = _slopes(replay, motion, actuation, steps, vector, subset)
            step = _newton(errors, slopes, width).clip(-0.3, 0.3)
            vector[subset] += step
            if np.abs(step).max() < CONVERGED and width == widths[-1]:
                break
        fault = _small_fault(Parameters.unpack(vector), joint_names)
        if fault is not None:
            found.append(fault)
    return found


def _starts(
    replay: Replay, motion: Motion, actuation: Actuation, steps: np.ndarray, count: int
) -> List[Tuple[np.ndarray, np.ndarray, Sequence[float]]]:
    """Return parameters from which to search, which of them to change, and the widths: zeros of a grid that help, the
    best turn, and the gains."""
    turn, gains, zeros = count + np.arange(3), count + 3 + np.arange(2), np.zeros(count + 5)
    grid = [(np.array([i]), np.array([size])) for i in range(count) for size in (-0.3, -0.2, -0.1, 0.1, 0.2, 0.3)]
    some = steps[:: max(1, len(steps) // 8)]

    def change(vector: np.ndarray) -> Tuple[Correction, Actuation]:
        return lambda m: _apply(m, actuation, vector)[0], _apply(motion, actuation, vector)[1]

    (least,), starts = many_costs(replay, motion, some, [change(zeros)]), [(zeros.copy(), gains, NEAR)]
    if least > _FAR:  # Newton's method does not find a large turn from zero
        tilts = (-0.24, -0.12, 0.0, 0.12, 0.24)
        grid += [(turn, np.array(angles)) for angles in itertools.product(tilts, tilts, (-0.2, 0.0, 0.2))]
    else:
        starts.append((zeros.copy(), turn, NEAR))
    vectors = np.zeros((len(grid), count + 5))
    for vector, (subset, values) in zip(vectors, grid):
        vector[subset] = values
    best: Dict[int, Tuple[Any, ...]] = {}
    for i, cost in enumerate(many_costs(replay, motion, some, [change(vector) for vector in vectors])):
        subset = grid[i][0]
        new = (cost, i, vectors[i], subset, NEAR if len(subset) == 1 else FAR)
        best[int(subset[0])] = min(new, best.get(int(subset[0]), new), key=lambda one: one[:2])
    starts += [best.pop(turn[0])[2:]] if turn[0] in best else []
    ranked = sorted((one for one in best.values() if one[0] < least), key=lambda one: one[:2])
    return [*(one[2:] for one in ranked[:3]), *starts]


def _apply(motion: Motion, actuation: Actuation, vector: np.ndarray) -> Tuple[Motion, Actuation]:
    small = Parameters.unpack(vector)
    motion = replace(motion, joint_pos=motion.joint_pos - small.zeros, targets=motion.targets - small.zeros)
    if small.turn.any():
        motion = turned(quaternion(small.turn))(motion)
    stiffness, damping = np.exp(small.gains)
    return motion, combine(actuation, Actuation(float(stiffness), float(damping)))


def quaternion(turn: np.ndarray) -> np.ndarray:
    """Return the quaternion w x y z of a rotation vector [rad]."""
    angle = float(np.linalg.norm(turn))
    return np.array([math.cos(angle / 2), *(math.sin(angle / 2) / max(angle, 1e-12) * turn)])


def _slopes(
    replay: Replay,
    motion: Motion,
    actuation: Actuation,
    steps: np.ndarray,
    vector: np.ndarray,
    subset: np.ndarray,
) -> Tuple[np.ndarray, np.ndarray]:
    """Return scaled errors [n], and their slopes by finite differences [n, parameters]."""

    def errors(at: np.ndarray) -> np.ndarray:
        changed, gains = _apply(motion, actuation, at)
        return (replay.residuals(changed, steps, gains) / scales(motion.joint_pos.shape[1])).ravel()

    base, columns = errors(vector), []
    for i in subset:
        step = 0.02 if i < len(vector) - 2 else 0.1
        moved = vector.copy()
        moved[i] += step
        columns.append((errors(moved) - base) / step)
    return base, np.stack(columns, axis=1)


def _newton(errors: np.ndarray, slopes: np.ndarray, width: float) -> np.ndarray:
    """Return the step to the least robust cost, in which errors above a width count little."""
    weights = 1.0 / (1.0 + (errors / width) ** 2)
    weighted = slopes * weights[:, None]
    return np.linalg.solve(weighted.T @ slopes + 1e-6 * np.eye(slopes.shape[1]), -weighted.T @ errors)


def _small_fault(small: Parameters, names: Sequence[str]) -> Optional[Fault]:
    """Return the fault of parameters of one kind, or None if they are too small to matter."""
    if np.abs(small.zeros).max() > ZERO:
        joint = int(np.abs(small.zeros).argmax())
        zero = float(small.zeros[joint])
        sentence = f"the zero of {names[joint]} is off by {zero:+.3f} rad ({math.degrees(zero):+.1f} degrees)"
        correct = lambda m, z=small.zeros: replace(m, joint_pos=m.joint_pos - z, targets=m.targets - z)  # noqa: E731
        return Fault("joint zero", "reading", sentence, correct, fix={"zeros": small.zeros.tolist()})
    angle = float(np.linalg.norm(small.turn))
    if angle > ASKEW:
        axis = ", ".join(f"{math.degrees(x):+.0f}" for x in small.turn)
        sentence = f"the IMU is mounted askew by {math.degrees(angle):.0f} degrees (about x, y, z: {axis})"
        mounting = quaternion(small.turn)
        return Fault("IMU askew", "reading", sentence, turned(mounting), fix={"mounting": mounting.tolist()})
    if np.abs(small.gains).max() > GAIN:
        stiffness, damping = (float(x) for x in np.exp(small.gains))
        parts = [
            f"the {name} is about {factor:.2g} times that of the policy"
            for name, factor, size in (("stiffness", stiffness, small.gains[0]), ("damping", damping, small.gains[1]))
            if abs(size) > GAIN
        ]
        return Fault("gains", "motion", ", and ".join(parts), actuation=Actuation(stiffness, damping))
    return None


def _finding(
    best: Candidate,
    others: Sequence[Candidate],
    before: np.ndarray,
    replay: Replay,
    motion: Motion,
    actuation: Actuation,
    steps: np.ndarray,
) -> Finding:
    """Return the finding of an explanation, with a confidence against the next best of another kind."""
    rivals = [one for one in others if one.fault.sentence != best.fault.sentence]
    confidence, text = 0.99, ""
    if rivals:
        _, sigma = _decrease(rivals[0].costs, best.costs)
        confidence = 0.5 * (1 + math.erf(sigma / 2 / math.sqrt(2)))
        if sigma < 3.0:
            text = rivals[0].fault.sentence
    _, sigma = _decrease(before, best.costs)
    evidence = (
        f"with this corrected the model predicts the next {HORIZON} steps with the cost {best.cost:.2f}, "
        f"before {before.mean():.2f} ({sigma:.0f} standard errors, {len(steps)} steps)"
    )
    traces = _traces(replay, motion, actuation, best.fault, steps)
    return Finding(
        best.fault.kind,
        best.fault.boundary,
        best.fault.sentence,
        evidence,
        round(min(0.99, confidence), 2),
        best.fault.fix,
        text,
        traces,
    )


def _traces(replay: Replay, motion: Motion, actuation: Actuation, fault: Fault, steps: np.ndarray) -> Mapping[str, Any]:
    """Return the sizes of the prediction errors, before and after the correction."""
    size = scales(motion.joint_pos.shape[1])
    before = np.abs(replay.residuals(motion, steps, actuation)[:, -1] / size).mean(axis=1)
    after = replay.residuals(fault.correct(motion), steps, combine(actuation, fault.actuation))
    return {
        "time": steps,
        "logged": before,
        "expected": np.abs(after[:, -1] / size).mean(axis=1),
        "label": "error of the predicted motion; expected: with the correction",
        "axis": "row of the log",
    }


def _unexplained(current: np.ndarray) -> Finding:
    return Finding(
        "wrong robot",
        "motion",
        "the motion is not that of the policy's robot, and no single correction explains it",
        f"the cost of the model's predictions is {current.mean():.2f} at best; robots of the policy have 0.1 to 0.3",
        0.8,
    )
