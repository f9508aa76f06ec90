"""What the names of links and joints say about a part of a robot: arm or leg, left or right, front or rear.

Names only decide where shapes and joints leave a choice, and where they contradict a guess.
"""

from __future__ import annotations

import re
from typing import Iterable, List, Set

_ARM = {
    "arm",
    "arms",
    "hand",
    "hands",
    "wrist",
    "elbow",
    "forearm",
    "gripper",
    "finger",
    "thumb",
    "palm",
    "head",
    "neck",
}
_LEG = {"leg", "foot", "feet", "ankle", "toe", "toes", "hip", "knee", "calf", "shank", "thigh", "shin", "sole", "haa"}
_LEG |= {"hfe", "kfe", "haunch"}

_LEFT = {"l", "lf", "fl", "lh", "hl", "bl", "lb", "rl", "lm", "ml"}
_RIGHT = {"r", "rf", "fr", "rh", "hr", "br", "rb", "rr", "rm", "mr"}
_FRONT, _REAR = {"front", "fore", "lf", "fl", "rf", "fr"}, {"rear", "back", "hind", "lh", "hl", "rh", "hr", "bl", "br"}
_REAR |= {"lb", "rb", "rl", "rr"}


def words(name: str) -> List[str]:
    """Return the words of a name in lower case: ``LeftHip_2`` has left, hip."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+", name)]


def is_arm(names: Iterable[str]) -> bool:
    """Return whether the names of a chain are those of an arm or a head and not those of a leg."""
    found = {word for name in names for word in words(name)}
    return bool(found & _ARM) and not found & _LEG


def side_of(names: Iterable[str]) -> int:
    """Return 1 for the names of a left part, -1 for those of a right one, and 0 for others."""
    found = [word for name in names for word in words(name)]
    return _sign(found, {"left"}, {"right"}) or _sign(found, _LEFT, _RIGHT)


def end_of(names: Iterable[str]) -> int:
    """Return 1 for the names of a front part, -1 for those of a rear one, and 0 for others."""
    return _sign([word for name in names for word in words(name)], _FRONT, _REAR)


def _sign(found: List[str], positive: Set[str], negative: Set[str]) -> int:
    """Return which of two sets has more of the words: 1, -1, or 0 if both have as many."""
    first, second = (sum(word in some for word in found) for some in (positive, negative))
    return (first > second) - (first < second)
