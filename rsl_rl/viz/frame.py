"""What a viewer shows, and what its user chooses."""

from __future__ import annotations

from typing import Mapping, NamedTuple, Tuple

import numpy as np

Command = Tuple[float, float, float]
"""Forward and left velocity [m/s], yaw rate [rad/s]."""

NEWEST = "newest"
"""The checkpoint that a viewer reloads whenever a training has saved a newer one."""

ALL_LEVELS = -1

STEP = 0.1
"""Change of a command by a key [m/s] or [rad/s]."""


class Frame(NamedTuple):
    """A moment of R robots, in world coordinates; all but the poses is of the first robot, with J joints and F feet."""

    poses: np.ndarray  # [R, 7 + J] root position [m], quaternion w x y z, joint angles [rad]
    velocity: Command  # measured
    rewards: Mapping[str, float]  # weighted reward terms [1/s]
    points: np.ndarray  # [K, 3] of the height scan [m]; none on a plane
    feet: np.ndarray  # [F, 3] positions [m]
    forces: np.ndarray  # [F, 3] of the ground on the feet [N]


class Choice(NamedTuple):
    """The policy and the ground that a user chooses."""

    checkpoint: str  # an iteration, "best", or NEWEST
    terrain: str  # a type of ground; empty: that of the task
    level: int  # of the ground, or ALL_LEVELS
