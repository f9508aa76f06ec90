"""Find which joint each channel of a robot is, with its sign and zero, from slow motions of a robot on a stand.

A channel is a place in the robot's readings and targets. In the channel of a joint with the angle q the robot reads
sign * q + zero. The PD loop's torque is known from targets and readings; it holds the limb against gravity and
friction. So each order of the channels, with signs and zeros, predicts the torques, and the one that predicts
them best is taken if all others predict them clearly worse.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from rsl_rl.hardware.limbs import Limbs, loads

SLOW = 0.05
"""Speed at which dry friction has three quarters of its size [rad/s]."""
STRENGTH_SPREAD = 0.05
"""Spread of the factor between the torque that a motor gives and the one it is asked for."""
LARGEST_ZERO = 0.7
"""Largest zero that is looked for [rad]."""
RANGE_TOLERANCE = 0.2
"""Distance by which a joint may be beyond the range of the model [rad]."""
STOP_WIDTH = 0.05
"""Distance from the end of a joint's range at which the end may carry torque [rad]."""
CORRELATED = 1.5
"""Samples that count as one, as their errors are alike."""
NUM_STARTS = 3
"""Orders from which the search of a longer limb begins."""
NUM_REFINED = 10
"""Best assignments of a limb whose fit is continued."""
WHOLE_SEARCH = 4
"""Joints of a limb up to which all orders and signs are tried."""


class Samples(NamedTuple):
    """Means over short times, of the channels of a limb."""

    pos: np.ndarray  # [T, n] [rad]
    vel: np.ndarray  # [T, n] [rad/s]
    acc: np.ndarray  # [T, n] [rad/s^2]
    ways: np.ndarray  # [T, n] mean direction of the motion, -1 to 1, that of dry friction
    torque: np.ndarray  # [T, n] of the PD loops [N m]
    gravity: np.ndarray  # [T, 3] direction in the base frame

    def take(self, channels: Sequence[int]) -> Samples:
        rows = list(channels)
        return Samples(*(x if x is self.gravity else x[:, rows] for x in self))


@dataclass(frozen=True)
class Fit:
    """An assignment of the channels of a limb, and how well it predicts the torques."""

    joints: Tuple[int, ...]
    """Joint of each channel, an index within the limb."""
    signs: Tuple[int, ...]
    zeros: np.ndarray  # [n] [rad]
    strengths: np.ndarray  # [n]
    cost: float
    """Sum over the channels of half the samples times the logarithm of the mean squared error."""
    errors: np.ndarray  # [n] root mean squared error of the torque [N m]
    spread: np.ndarray  # [n] standard deviation of the zeros [rad]
    predicted: np.ndarray  # [T, n] torques with friction [N m]

    @property
    def key(self) -> Tuple[Tuple[int, ...], Tuple[int, ...]]:
        return self.joints, self.signs


class LimbSearch:
    """Fits of one limb."""

    def __init__(self, limb: Limbs, samples: Samples, floor: float, guess: np.ndarray):
        """``floor`` is the error of a torque that is always expected [N m]; ``guess`` are likely joint angles at the
        first sample [n]."""
        self.limb, self.samples, self._floor = limb, samples, floor
        self.fixed: Dict[int, Tuple[int, int]] = {}
        """Joint and sign of channels that are known."""
        self.zeros: Dict[int, Tuple[float, float]] = {}
        """Zero of channels whose zero is known, with its standard deviation [rad]."""
        self.count = len(limb.names)
        self.num_samples = len(samples.pos) / CORRELATED
        self._weights = np.where(np.abs(samples.ways) < 0.8, 0.1, 1.0)  # the friction of a joint at rest is unknown
        self._bases = []
        for c in range(self.count):
            columns = np.stack([samples.ways[:, c], samples.vel[:, c]], axis=1) * self._weights[:, c : c + 1]
            self._bases.append(np.linalg.qr(columns + 1e-12)[0])
        self._guess = guess
        self._found: Dict[Tuple[Tuple[int, ...], Tuple[int, ...]], Optional[Fit]] = {}

    def fit(self, joints: Sequence[int], signs: Sequence[int], steps: int = 3) -> Optional[Fit]:
        """Return the best zeros of an assignment; None if it moves a joint out of its range."""
        key = tuple(joints), tuple(signs)
        if any((key[0][c], key[1][c]) != told for c, told in self.fixed.items()):
            return None
        if key not in self._found:
            self._found[key] = self._fit(np.array(joints), np.array(signs, float), steps)
        return self._found[key]

    def gravity_torques(self, fit: Fit) -> np.ndarray:
        """Return the largest torque that gravity of any direction has on each channel in the samples' poses [n]
        [N m]."""
        angles = np.empty_like(self.samples.pos)
        angles[:, list(fit.joints)] = np.array(fit.signs) * (self.samples.pos - fit.zeros)
        sizes = np.linalg.norm(loads(self.limb, angles, self.samples.gravity).per_gravity, axis=2)
        return sizes.mean(axis=0)[list(fit.joints)]

    def with_samples(self, samples: Samples) -> LimbSearch:
        """Return a search in other samples with the same knowledge."""
        search = LimbSearch(self.limb, samples, self._floor, self._guess)
        search.fixed, search.zeros = self.fixed, self.zeros
        return search

    def refit(self, fit: Fit) -> Optional[Fit]:
        """Return the fit of the same assignment with the zeros that are known now."""
        return self._fit(np.array(fit.joints), np.array(fit.signs, float), 20)

    def _bounds(self, joints: np.ndarray, signs: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        """Return the lowest and highest zeros [n] with which the joints stay in their ranges."""
        low, high = self.limb.ranges[joints, 0] - RANGE_TOLERANCE, self.limb.ranges[joints, 1] + RANGE_TOLERANCE
        lowest, highest = self.samples.pos.min(axis=0), self.samples.pos.max(axis=0)
        zero_low = np.where(signs > 0, highest - high, highest + low)
        zero_high = np.where(signs > 0, lowest - low, lowest + high)
        return np.maximum(zero_low, -LARGEST_ZERO), np.minimum(zero_high, LARGEST_ZERO)

    def _fit(self, joints: np.ndarray, signs: np.ndarray, steps: int) -> Optional[Fit]:
        low, high = self._bounds(joints, signs)
        if (low > high).any():
            return None
        samples, count = self.samples, self.count
        zeros = np.clip(samples.pos[0] - signs * self._guess[joints], low, high)
        strengths, damping = np.ones(count), 1e-3
        for c, (zero, _) in self.zeros.items():
            zeros[c] = zero
        state = self._evaluate(joints, signs, zeros, strengths)
        for _ in range(steps):
            objective, errors, slopes = state[0], state[1], state[2]
            hessian, gradient = np.zeros((2 * count, 2 * count)), np.zeros(2 * count)
            for c in range(count):
                scale = 1.0 / max(float(errors[:, c] @ errors[:, c]) / len(errors), self._floor**2)
                hessian += scale * slopes[c].T @ slopes[c]
                gradient += scale * slopes[c].T @ errors[:, c]
            prior = len(errors) / self.num_samples / STRENGTH_SPREAD**2
            hessian[range(count, 2 * count), range(count, 2 * count)] += prior
            gradient[count:] -= prior * (strengths - 1.0)
            for c, (zero, spread) in self.zeros.items():
                weight = len(errors) / self.num_samples / spread**2
                hessian[c, c] += weight
                gradient[c] -= weight * (zeros[c] - zero)
            step = np.linalg.solve(hessian + damping * np.diag(np.diag(hessian) + 1e-9), gradient)
            new_zeros = np.clip(zeros + np.clip(step[:count], -0.3, 0.3), low, high)
            new_strengths = np.clip(strengths + step[count:], 0.5, 1.5)
            new = self._evaluate(joints, signs, new_zeros, new_strengths)
            if new[0] < objective:
                gained, damping = objective - new[0], damping / 5
                zeros, strengths, state = new_zeros, new_strengths, new
                if gained < 1e-3 * self.num_samples / 10:
                    break
            else:
                damping *= 20
                if damping > 1e3:
                    break
        objective, errors, slopes, predicted = state
        inverse = np.zeros((2 * count, 2 * count))
        for c in range(count):
            scale = 1.0 / max(float(errors[:, c] @ errors[:, c]) / len(errors), self._floor**2)
            inverse += scale * slopes[c].T @ slopes[c] * self.num_samples / len(errors)
        inverse[range(count, 2 * count), range(count, 2 * count)] += 1 / STRENGTH_SPREAD**2
        for c, (_, known) in self.zeros.items():
            inverse[c, c] += 1 / known**2
        inverse[range(count), range(count)] += 1.0  # a zero is unlikely to be far from 0 by more than 1 rad
        spread = np.sqrt(np.diag(np.linalg.inv(inverse))[:count])
        rms = np.sqrt((errors**2).mean(axis=0))
        for c in set(range(count)) - set(self.zeros):  # what other joints tell of a zero depends much on the model
            own = float(np.sqrt((slopes[c][:, c] ** 2).mean())) * math.sqrt(self.num_samples)
            spread[c] = max(spread[c], 2.0 * max(float(rms[c]), self._floor) / max(own, 1e-9))
        return Fit(
            tuple(int(j) for j in joints),
            tuple(int(s) for s in signs),
            zeros,
            strengths,
            float(objective),
            rms,
            spread,
            predicted,
        )

    def _evaluate(
        self, joints: np.ndarray, signs: np.ndarray, zeros: np.ndarray, strengths: np.ndarray
    ) -> Tuple[float, np.ndarray, List[np.ndarray], np.ndarray]:
        """Return cost, weighted errors [T, n], their negative slopes by zeros and strengths [T, 2 n] of each channel,
        and predicted torques [T, n]."""
        samples, count = self.samples, self.count
        angles = np.empty_like(samples.pos)
        angles[:, joints] = signs * (samples.pos - zeros)
        held = loads(self.limb, angles, samples.gravity)
        inertia = signs[:, None] * self.limb.inertia[np.ix_(joints, joints)] * signs
        torque = signs * held.torques[:, joints] + samples.acc @ inertia  # of the channels
        by_zero = -signs[None, :, None] * held.stiffness[:, joints][:, :, joints] * signs[None, None, :]
        errors, predicted, slopes, cost = np.empty_like(torque), np.empty_like(torque), [], 0.0
        for c in range(count):
            weight, basis = self._weights[:, c], self._bases[c]
            residual = (samples.torque[:, c] - torque[:, c] / strengths[c]) * weight
            along = basis @ (basis.T @ residual)
            rest = signs[c] * (residual - along)  # what a motor gives more against the end of a range is no error
            low, high = self.limb.ranges[joints[c]]
            stopped = ((angles[:, joints[c]] > high - STOP_WIDTH) & (rest > 0)) | (
                (angles[:, joints[c]] < low + STOP_WIDTH) & (rest < 0)
            )
            counts = np.where(stopped, 0.0, 1.0)
            errors[:, c] = (residual - along) * counts
            predicted[:, c] = torque[:, c] / strengths[c] + along / weight
            slope = np.zeros((len(torque), 2 * count))
            slope[:, :count] = by_zero[:, c] / strengths[c] * weight[:, None]
            slope[:, count + c] = -torque[:, c] / strengths[c] ** 2 * weight
            slopes.append((slope - basis @ (basis.T @ slope)) * counts[:, None])
            mean = float(errors[:, c] @ errors[:, c]) / max(float(counts.sum()), 0.3 * len(counts))
            cost += 0.5 * self.num_samples * math.log(mean + self._floor**2)
        cost += float(0.5 * (((strengths - 1.0) / STRENGTH_SPREAD) ** 2).sum())
        cost += sum(0.5 * ((zeros[c] - zero) / spread) ** 2 for c, (zero, spread) in self.zeros.items())
        return cost, errors, slopes, predicted

    def search(self) -> List[Fit]:
        """Return fits of assignments that agree with what is known, the best first."""
        self._found.clear()
        if self.count <= WHOLE_SEARCH:
            for joints in itertools.permutations(range(self.count)):
                for signs in itertools.product((1, -1), repeat=self.count):
                    self.fit(joints, signs)
        else:
            ends = set()
            for joints, signs in self._starts():
                end = self._descend(joints, signs)
                if end is not None and end.key in ends:  # two ways lead to it
                    break
                ends.update([] if end is None else [end.key])
            best = self._sorted()[0] if self._sorted() else None
            if best is not None:
                for neighbour in _neighbours(best.joints, best.signs, threes=True):
                    self.fit(*neighbour)
        for rough in self._sorted()[:NUM_REFINED]:  # a few steps tell which are worth more
            self._found[rough.key] = self._fit(np.array(rough.joints), np.array(rough.signs, float), 12)
        return self._sorted()

    def _sorted(self) -> List[Fit]:
        return sorted((fit for fit in self._found.values() if fit is not None), key=lambda fit: fit.cost)

    def _descend(self, joints: Tuple[int, ...], signs: Tuple[int, ...]) -> Optional[Fit]:
        """Change an assignment step by step as long as it becomes better; return the last one."""
        best = self.fit(joints, signs)
        improved = best is not None
        while improved and best is not None:
            improved = False
            for neighbour in _neighbours(best.joints, best.signs):
                fit = self.fit(*neighbour)
                if fit is not None and fit.cost < best.cost - 1e-6:
                    best, improved = fit, True
                    break
        return best

    def _starts(self) -> Iterator[Tuple[Tuple[int, ...], Tuple[int, ...]]]:
        """Yield likely assignments: those whose torques depend on the direction of gravity as measured."""
        samples, count = self.samples, self.count
        nominal = loads(self.limb, self._guess[None], samples.gravity.mean(axis=0)[None]).per_gravity[0]
        distance = np.empty((count, count, 2))  # of channel, joint and sign
        for c in range(count):
            motion = np.stack([samples.ways[:, c], samples.vel[:, c]], axis=1)
            columns = np.concatenate([samples.gravity, motion], axis=1)
            measured = np.linalg.lstsq(columns, samples.torque[:, c], rcond=1e-3)[0][:3]
            for j, s in itertools.product(range(count), (0, 1)):
                gap = np.linalg.norm(measured - (1 - 2 * s) * nominal[j])
                distance[c, j, s] = gap / (np.linalg.norm(nominal[j]) + 3 * self._floor)
        for c, j, s in itertools.product(range(count), range(count), (0, 1)):
            known = self.fixed.get(c, (j, 1 - 2 * s)) == (j, 1 - 2 * s)
            low, high = self._bounds(np.full(count, j), np.full(count, 1.0 - 2 * s))
            if not known or low[c] > high[c]:
                distance[c, j, s] = np.inf
        least, way = distance.min(axis=2), distance.argmin(axis=2)
        orders = sorted(itertools.permutations(range(count)), key=lambda p: float(least[range(count), p].sum()))
        for joints in orders[:NUM_STARTS]:
            if np.isfinite(least[range(count), joints].sum()):
                yield joints, tuple(int(1 - 2 * way[c, joints[c]]) for c in range(count))


def _neighbours(
    joints: Tuple[int, ...], signs: Tuple[int, ...], threes: bool = False
) -> Iterator[Tuple[Tuple[int, ...], Tuple[int, ...]]]:
    """Yield assignments with one, two or ``threes`` other signs, or two joints exchanged with any signs of these."""
    count = len(joints)
    for i in range(count):
        yield joints, _flipped(signs, i)
    for i, k in itertools.combinations(range(count), 2):
        yield joints, _flipped(signs, i, k)
        swapped = list(joints)
        swapped[i], swapped[k] = swapped[k], swapped[i]
        for flips in ((), (i,), (k,), (i, k)):
            yield tuple(swapped), _flipped(signs, *flips)
    if threes:
        for three in itertools.combinations(range(count), 3):
            yield joints, _flipped(signs, *three)


def _flipped(signs: Tuple[int, ...], *places: int) -> Tuple[int, ...]:
    return tuple(-sign if i in places else sign for i, sign in enumerate(signs))


def margin(fits: Sequence[Fit], differs: int) -> float:
    """Return by how much the best fit is better than the best of those that assign one channel otherwise."""
    best = fits[0]
    others = [f for f in fits if (f.joints[differs], f.signs[differs]) != (best.joints[differs], best.signs[differs])]
    return others[0].cost - best.cost if others else math.inf
