"""Find the time from a target to the reading of its motion, from pushes of single joints that are at rest before."""

from __future__ import annotations

from typing import List, NamedTuple, Sequence, Tuple

import numpy as np

STEP, LONGEST = 0.005, 0.1
"""Distance of the delays that are tried, and the longest of them [s]."""
NOISE, MODEL_ERROR = 0.006, 0.002
"""Expected error of angles, and the least error that is always expected [rad]."""
DRIFT, RATE = 0.5, 100.0
"""Standard deviations of the speed before a push [rad/s] and of the damping over the inertia [1/s]."""
MOST_TOLD = 3.0
"""Largest cost that one joint can add to a delay, because a single joint can be clearly wrong."""
_BEFORE, _AFTER = 5, 1  # control steps that are used around a push


class Span(NamedTuple):
    """Control steps of a push."""

    row: int  # the first
    end: int  # after the last


def delay_costs(angles: np.ndarray, targets: np.ndarray, spans: Sequence[Span], period: float) -> np.ndarray:
    """Return the negative log-likelihood of each delay [K] for a joint's angles [T] and targets [T] in its pushes.

    A push gives a constant acceleration, less the damping, from the delay on. The equation of motion is used after two
    integrals, which noise hardly changes; each push has its own acceleration, angle and speed before it.
    """
    costs = np.empty(len(_delays()))
    for k, delay in enumerate(_delays()):
        late, columns, blocks, measured = _shifted(targets, delay / period), 3 * len(spans) + 1, [], []
        for i, span in enumerate(spans):
            rows = slice(max(0, span.row - _BEFORE), span.end + _AFTER)
            moved = angles[rows] - angles[rows][:_BEFORE].mean()
            pushed = (late[rows] - targets[span.row - 1])[1:]
            block = np.zeros((len(moved), columns))
            block[:, 3 * i] = 1.0
            block[:, 3 * i + 1] = np.arange(len(moved)) * period
            block[:, 3 * i + 2] = _integral(np.concatenate([[0.0], np.cumsum(pushed) * period]), period)
            block[:, -1] = _integral(moved, period)
            blocks.append(block)
            measured.append(moved)
        expected = np.array([*[0.02, DRIFT, 1e3] * len(spans), RATE])
        matrix = np.concatenate([*blocks, np.diag(NOISE / expected)])
        wanted = np.concatenate([*measured, np.zeros(columns)])
        rest = wanted - matrix @ np.linalg.lstsq(matrix, wanted, rcond=None)[0]
        count = len(wanted) - columns
        costs[k] = count / 2 * np.log(float(rest @ rest) / count + MODEL_ERROR**2)
    return costs


def best_delay(costs: np.ndarray) -> float:
    """Return the delay of the lowest cost, between those that were tried by a parabola [s]."""
    i = int(costs.argmin())
    if not 0 < i < len(costs) - 1:
        return i * STEP
    before, here, after = costs[i - 1 : i + 2]
    return (i + 0.5 * float((before - after) / max(before - 2 * here + after, 1e-12))) * STEP


def find_delays(
    angles: np.ndarray, targets: np.ndarray, pushes: Sequence[Sequence[Span]], period: float
) -> Tuple[List[float], float]:
    """Return the delay of each joint, nan without a push, and that of all [s], from angles and targets [T, J]."""
    each, total = [], np.zeros(len(_delays()))
    for c, spans in enumerate(pushes):
        costs = delay_costs(angles[:, c], targets[:, c], spans, period) if spans else np.zeros(len(total))
        each.append(best_delay(costs) if spans else float("nan"))
        total = total + np.minimum(costs - costs.min(), MOST_TOLD)
    return each, best_delay(total)


def _delays() -> np.ndarray:
    return np.arange(round(LONGEST / STEP) + 1) * STEP


def _shifted(values: np.ndarray, steps: float) -> np.ndarray:
    """Delay values by a number of steps, which may be fractional."""
    whole, part = int(steps), steps - int(steps)
    late = np.concatenate([np.repeat(values[:1], whole + 1), values])[: len(values) + 1]
    return part * late[:-1] + (1 - part) * late[1:]


def _integral(values: np.ndarray, period: float) -> np.ndarray:
    return np.concatenate([[0.0], np.cumsum(values[1:] + values[:-1]) / 2 * period])
