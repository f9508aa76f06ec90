"""Find motors that do not move their own reading, from pushes of single motors."""

from __future__ import annotations

from typing import List, NamedTuple, Sequence

import numpy as np

MOVED = 0.025
"""Angle from which a joint counts as moved [rad]."""


class Push(NamedTuple):
    """A push of a motor."""

    channel: int
    sign: int
    level: float
    row: int  # of the recording, where it begins
    end: int
    moved: np.ndarray  # [J] of all channels [rad]


def wrong_motors(pushes: Sequence[Push], names: Sequence[str]) -> List[str]:
    """Name motors that move another reading than their own, their own the other way, or nothing.

    The accelerations that a torque in each motor gives are a positive definite matrix, so in a sum over pairs of motors
    and readings, each motor with its own reading has the largest sum. Only the strongest pushes of a motor are used,
    one each way: in weaker ones, limbs that still swing may move as much as the motor's own.
    """
    count, problems = len(names), []
    response = np.zeros((count, count))
    strongest = {push.channel: push.level for push in pushes}
    for push in pushes:
        if push.level == strongest[push.channel]:
            response[push.channel] += push.sign * push.moved
    size, own = np.abs(response).max(axis=1), np.diag(response)
    still = [c for c in range(count) if size[c] < MOVED]
    if len(still) == count:
        return [
            "no motor moves its joint: are the motors on, does the driver's hold() reach them, does the robot read "
            "degrees?"
        ]
    for c in range(count):
        other = int(np.abs(response[c]).argmax())
        if c in still:
            problems.append(f"{names[c]}: its motor moves no joint: it is off, stuck, or its reading is frozen")
        elif own[c] < 0.3 * size[c] and other == c:
            problems.append(f"{names[c]}: its reading turns the other way than its target: mend the driver")
        elif own[c] < 0.3 * size[c]:
            problems.append(
                f"{names[c]}: its targets move the reading of {names[other]}: the motors are swapped, or only one of "
                "readings and targets is in another order: mend the driver"
            )
    scaled = response / np.maximum(size[:, None], 1e-9)
    for a in range(count):
        for b in range(a):
            if scaled[a, b] + scaled[b, a] > scaled[a, a] + scaled[b, b] and not {a, b} & set(still):
                problems.append(f"the targets of {names[a]} and {names[b]} move each other's readings: mend the driver")
    return problems
