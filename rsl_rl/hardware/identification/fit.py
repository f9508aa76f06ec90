"""Nonlinear least squares for parameters that all pieces of logs share, and a start state of each piece.

Levenberg and Marquardt's method. The start states are eliminated from the normal equations, so that their size is that
of the parameters. Large residuals count linearly (Huber), and pieces that are not explained count little. The noise of
each channel is estimated from the residuals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from rsl_rl.hardware.identification.simulation import CHANNELS, NOISE, Piece, Prediction, Worlds

_HUBER = 3.0
"""Residual, in standard deviations, from which it counts linearly."""

_BLOCK = 0.25
"""Time within which residuals may depend on each other [s]."""

_FRESH = 3
"""Iterations that share the derivatives by parameters on the floor, where they take most of the time."""

Set = Tuple[Worlds, Sequence[Piece]]


@dataclass
class Fit:
    """Parameters and what is known of them, all scaled."""

    x: np.ndarray  # [P]
    states: List[List[np.ndarray]]  # of each set and piece
    information: np.ndarray  # [P, P] of the log alone, start states eliminated
    scores: np.ndarray  # [blocks, P] gradients of blocks of rows
    shares: np.ndarray  # [blocks, P, P] of the information

    @property
    def covariance(self) -> np.ndarray:
        """Return the covariance of the parameters [P, P].

        It is that of independent residuals or that of residuals which depend on each other within a block, whichever
        is larger for a parameter. The latter is the jackknife's: the spread of the estimates that leave out one block
        each, after one step (CR3 of Cameron and Miller, "A practitioner's guide to cluster-robust inference", 2015).
        """
        whole, count = self.information + np.eye(len(self.x)), len(self.scores)
        plain = np.linalg.inv(whole)
        changes = np.stack([np.linalg.solve(whole - own, score) for own, score in zip(self.shares, self.scores)])
        robust = changes.T @ changes * (count - 1) / count
        scale = np.sqrt(np.maximum(1.0, np.diag(robust) / np.diag(plain)))
        return np.asarray(plain * np.outer(scale, scale))


def fit(
    sets: Sequence[Set],
    x: np.ndarray,
    least: np.ndarray,
    iterations: int = 6,
    converged: float = 1e-3,
    states: Optional[List[List[np.ndarray]]] = None,
    progress: Callable[[float], None] = lambda error: None,
) -> Fit:
    """Estimate scaled parameters [P], whose nominal values are zero, from pieces of logs in their worlds.

    It ends when the cost falls by less than the share ``converged``. ``progress`` gets the root mean square residual of
    each iteration in standard deviations.
    """
    noise, damping = np.array([NOISE[name] for name in CHANNELS]), 1e-4
    if states is None:
        states = [worlds.start_states(pieces) for worlds, pieces in sets]
        for _ in range(2):
            states = _better_states(sets, x, states, noise)
    predictions, age = [], _FRESH
    for iteration in range(iterations):
        is_fresh = age >= _FRESH or all(worlds.on_stand for worlds, _ in sets)
        predictions = _with_derivatives(sets, x, states, [] if is_fresh else predictions)
        age = 1 if is_fresh else age + 1
        noise = _noise(predictions, noise)
        system = _System(predictions, x, noise)
        gain = 0.0
        for _ in range(6):
            step, state_steps = system.solve(damping)
            new = np.maximum(least, x + np.clip(step, -2.0, 2.0))
            moved, trial = _moved(sets, new, states, state_steps, noise)
            gain = system.cost - _cost(trial, new, noise)
            if gain > 0:
                break
            damping *= 10
        if gain > 0:
            damping, x, states = max(1e-7, damping / 10), new, moved
            # the derivatives hardly change in the last step, so that those before it serve for what is known
            predictions = [
                [one._replace(residual=other.residual) for one, other in zip(own, others)]
                for own, others in zip(predictions, trial)
            ]
            progress(_root_mean_square(predictions))
        if not gain > (converged * system.cost if iteration else 0.0):
            if is_fresh:
                break
            age = _FRESH  # where old derivatives end, new ones may go on
    system = _System(predictions, x, _noise(predictions, noise))
    every = [piece for _, pieces in sets for piece in pieces]
    scores, shares = zip(*(block for i, piece in enumerate(every) for block in system.blocks(i, piece)))
    return Fit(x, states, system.information, np.array(scores), np.array(shares))


def _with_derivatives(
    sets: Sequence[Set], x: np.ndarray, states: Sequence[Sequence[np.ndarray]], old: Sequence[Sequence[Prediction]]
) -> List[List[Prediction]]:
    """Return predictions with derivatives. On the floor those by parameters are the ``old`` ones, if there are any."""
    if not old:
        return _predict(sets, x, states, "all")
    out = []
    for one_set, own, before in zip(sets, states, old):
        by = "all" if one_set[0].on_stand else "states"
        (new,) = _predict([one_set], x, [own], by)
        if by == "states":
            new = [one._replace(by_parameters=other.by_parameters) for one, other in zip(new, before)]
        out.append(new)
    return out


def _moved(
    sets: Sequence[Set],
    x: np.ndarray,
    states: Sequence[Sequence[np.ndarray]],
    steps: Sequence[Sequence[np.ndarray]],
    noise: np.ndarray,
) -> Tuple[List[List[np.ndarray]], List[List[Prediction]]]:
    """Return start states after the best share of their step, of each piece on the floor, and predictions from them."""
    moved, predictions = [], []
    for (worlds, pieces), own, own_steps in zip(sets, states, steps):
        tried = []
        for share in (1.0,) if worlds.on_stand else (1.0, 0.3, 0.0):
            new = [z + share * dz for z, dz in zip(own, own_steps)]
            tried.append(list(zip(new, worlds.predict(pieces, x, new, "none"))))
        best = [min(each, key=lambda one: _cost([[one[1]]], 0.0 * x, noise)) for each in zip(*tried)]
        moved.append([state for state, _ in best])
        predictions.append([one for _, one in best])
    return moved, predictions


def _better_states(
    sets: Sequence[Set], x: np.ndarray, states: Sequence[Sequence[np.ndarray]], noise: np.ndarray
) -> List[List[np.ndarray]]:
    """Return the start states after a step of their own. On the floor they are far from linear: feet touch or not."""
    out = []
    for (worlds, pieces), own in zip(sets, states):
        best = list(own)
        predictions = [] if worlds.on_stand else list(worlds.predict(pieces, x, best, "states"))
        _, (steps,) = _System([predictions], x, noise).solve(0.0)
        left = {i: _cost([[one]], 0.0 * x, noise) for i, one in enumerate(predictions)}
        for share in (1.0, 0.3):
            tried = list(left)
            moved = [best[i] + share * steps[i] for i in tried]
            trial = worlds.predict([pieces[i] for i in tried], x, moved, "none")
            for i, state, one in zip(tried, moved, trial):
                if _cost([[one]], 0.0 * x, noise) < left[i]:
                    best[i] = state
                    del left[i]
        out.append(best)
    return out


def explained(
    worlds: Worlds, pieces: Sequence[Piece], x: np.ndarray, count: int
) -> Tuple[List[Piece], List[np.ndarray]]:
    """Return the ``count`` pieces of a log on the floor, in order, whose start state can be found best, and the states.

    A foot that lands within a piece may keep the start state from being found.
    """
    states = [worlds.start_states(pieces)]
    if worlds.on_stand:
        return list(pieces), states[0]
    noise = np.array([NOISE[name] for name in CHANNELS])
    for _ in range(2):
        states = _better_states([(worlds, pieces)], x, states, noise)
    predictions = worlds.predict(pieces, x, states[0], "none")
    costs = np.array([_cost([[one]], 0.0 * x, noise) / len(one.residual) for one in predictions])
    best = sorted(np.argsort(costs)[:count])
    return [pieces[i] for i in best], [states[0][i] for i in best]


def information_of(predictions: Iterable[Prediction], x: np.ndarray) -> np.ndarray:
    """Return the information of pieces of logs on scaled parameters [P, P], with the usual noise."""
    return _System([list(predictions)], x, np.array([NOISE[name] for name in CHANNELS])).information


def _predict(
    sets: Sequence[Set], x: np.ndarray, states: Sequence[Sequence[np.ndarray]], by: str
) -> List[List[Prediction]]:
    return [list(worlds.predict(pieces, x, own, by)) for (worlds, pieces), own in zip(sets, states)]


def _flat(predictions: Sequence[Sequence[Prediction]]) -> List[Prediction]:
    return [one for own in predictions for one in own]


def _root_mean_square(predictions: Sequence[Sequence[Prediction]]) -> float:
    """Return the root mean square residual, in the units of NOISE."""
    scale = np.array([NOISE[name] for name in CHANNELS])
    parts = [np.clip(one.residual / scale[one.channel], -50, 50) ** 2 for one in _flat(predictions)]
    return float(np.sqrt(np.concatenate(parts).mean()))


def _noise(predictions: Sequence[Sequence[Prediction]], old: np.ndarray) -> np.ndarray:
    """Return the standard deviation of each channel, without the tails."""
    noise = old.copy()
    residual = np.concatenate([one.residual for one in _flat(predictions)])
    channel = np.concatenate([one.channel for one in _flat(predictions)])
    for i, name in enumerate(CHANNELS):
        own = residual[channel == i]
        if len(own) > 20 and name != "height":
            middle = 1.4826 * np.median(np.abs(own))
            noise[i] = max(np.sqrt((np.clip(own, -3 * middle, 3 * middle) ** 2).mean()), 0.02 * NOISE[name])
    return noise


def _loss(scaled: np.ndarray) -> np.ndarray:
    size = np.abs(scaled)
    return np.where(size < _HUBER, 0.5 * scaled**2, _HUBER * (size - 0.5 * _HUBER))


def _cost(predictions: Sequence[Sequence[Prediction]], x: np.ndarray, noise: np.ndarray) -> float:
    costs = [_piece_cost(one.residual / noise[one.channel])[0] for one in _flat(predictions)]
    return float(sum(costs) + 0.5 * x @ x)


def _piece_cost(scaled: np.ndarray) -> Tuple[float, float]:
    """Return the cost of the scaled residuals of a piece, and the weight of its squares.

    The residuals have Student's multivariate t distribution with as many degrees of freedom as there are numbers: all
    those of a piece share an unknown scale (Lange, Little and Taylor, "Robust statistical modeling using the t
    distribution", 1989). So a piece whose contacts are not found counts little.
    """
    if not np.isfinite(scaled).all():
        return np.inf, 0.0
    excess = 2.0 * _loss(scaled).mean()  # 1: that of noise
    return float(len(scaled) * np.log1p(excess)), float(2.0 / (1.0 + excess))


class _System:
    """The normal equations of one step. The log alone is in ``information``, and the prior is a unit matrix."""

    def __init__(self, predictions: Sequence[Sequence[Prediction]], x: np.ndarray, noise: np.ndarray):
        self._shape = [len(own) for own in predictions]
        self._x, self.cost = x, _cost(predictions, x, noise)
        self.information, self._gradient = np.zeros((len(x), len(x))), np.zeros(len(x))
        self._parts: List[Mapping[str, np.ndarray]] = []
        for one in _flat(predictions):
            scaled = one.residual / noise[one.channel]
            weight = np.minimum(1.0, _HUBER / np.maximum(np.abs(scaled), 1e-9))
            root = np.sqrt(weight * _piece_cost(scaled)[1]) / noise[one.channel]
            a, b, r = one.by_parameters * root[:, None], one.by_state * root[:, None], one.residual * root
            inner = b.T @ b
            inner += np.diag(1e-9 * np.maximum(np.diag(inner), 1e-9))
            solved = np.linalg.solve(inner, np.concatenate((b.T @ a, (b.T @ r)[:, None]), axis=1))
            to_a, to_r = solved[:, :-1], solved[:, -1]
            if a.shape[1]:
                self.information += a.T @ a - (a.T @ b) @ to_a
                self._gradient += a.T @ r - a.T @ (b @ to_r)
            self._parts.append({"to_a": to_a, "to_r": to_r, "a": a - b @ to_a, "r": r, "row": one.row})
        self.information = 0.5 * (self.information + self.information.T)

    def solve(self, damping: float) -> Tuple[np.ndarray, List[List[np.ndarray]]]:
        """Return the steps of parameters and of start states."""
        matrix = self.information + np.eye(len(self._x))
        matrix = matrix + damping * np.diag(np.diag(matrix))
        step = -np.linalg.solve(matrix, self._gradient + self._x)
        steps = [-(part["to_r"] + part["to_a"] @ step[: part["to_a"].shape[1]]) for part in self._parts]
        ends = np.cumsum([0, *self._shape])
        return step, [steps[start:end] for start, end in zip(ends[:-1], ends[1:])]

    def blocks(self, index: int, piece: Piece) -> Iterator[Tuple[np.ndarray, np.ndarray]]:
        """Yield the gradient [P] and the information [P, P] of blocks of rows of a piece."""
        part, rows = self._parts[index], piece.end - piece.start
        seconds = piece.recording.time[piece.end - 1] - piece.recording.time[piece.start]
        count = max(1, round(seconds / _BLOCK))
        edges = np.linspace(0, rows, count + 1).astype(int)
        for start, end in zip(edges[:-1], edges[1:]):
            own = (part["row"] >= start) & (part["row"] < end)
            a = part["a"][own]
            yield a.T @ part["r"][own], a.T @ a
