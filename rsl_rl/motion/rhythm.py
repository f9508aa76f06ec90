"""The rhythm of a gait: how often each foot lands, when, and how long it stands."""

from __future__ import annotations

from typing import List, NamedTuple

from rsl_rl.motion.checks import footfalls
from rsl_rl.motion.clip import Clip
from rsl_rl.motion.legs import legs_of
from rsl_rl.robots import Robot


class Rhythm(NamedTuple):
    """When each of F feet is on the floor in a gait."""

    period: float  # [s]
    touchdown: List[float]  # [F] in periods
    duty: List[float]  # [F] share of the period on the floor


def rhythm_of(clip: Clip, robot: Robot) -> Rhythm:
    """Return the rhythm of a robot's clip, a loop of one cycle in which each foot lands once; raise a ValueError for
    other clips."""
    falls = footfalls(clip, legs_of(robot)) if clip.loop else {}
    if not falls or any(len(own) != 2 for own in falls.values()):
        counts = ", ".join(f"{name} {len(own) - 1} times" for name, own in falls.items())
        what = f"feet land: {counts}" if counts else "it does not loop"
        raise ValueError(f"the clip '{clip.name}' has no rhythm ({what}); give one cycle in which each foot lands once")
    duty, touchdown = (list(row) for row in zip(*falls.values()))
    return Rhythm((len(clip.joint_pos) - 1) / clip.fps, touchdown, duty)
