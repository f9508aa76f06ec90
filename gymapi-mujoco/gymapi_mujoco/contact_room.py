"""How many contacts and constraints a world of MuJoCo Warp has room for: its buffers have a fixed size."""

# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import itertools
import os
from typing import Any, Tuple

import mujoco

VARIABLE = "GYMAPI_MUJOCO_CONTACTS"

_ON_PLANE = {int(mujoco.mjtGeom.mjGEOM_SPHERE): 1, int(mujoco.mjtGeom.mjGEOM_CAPSULE): 2}
"""Most contacts of a shape with a plane, by its type; of others it is the eight corners of a box."""

_ON_FIELD, _BETWEEN_TWO = 4, 8
"""Most contacts that MuJoCo Warp keeps of a shape with a height field, and of two shapes."""

_BETWEEN_ALL = 64
"""Room for contacts between all shapes of the actors: far more pairs exist than can touch at once."""

_MOST = 256
"""Room by default, whatever the number of shapes."""


def room(model: Any) -> Tuple[int, int]:
    """Return the numbers of contacts and of constraint rows of a world; ``GYMAPI_MUJOCO_CONTACTS`` sets the first."""
    given = os.environ.get(VARIABLE, "")
    if given and (not given.isdecimal() or int(given) < 1):
        raise ValueError(f"{VARIABLE}={given}: give the number of contacts that an environment has room for")
    contacts = int(given) if given else min(_MOST, max(1, _contacts(model)))
    return contacts, 4 * contacts + 2 * int(model.jnt_limited.sum())  # a contact's cone has four edges


def _contacts(model: Any) -> int:
    """Return how many contacts are possible, those between actors' shapes up to a limit."""
    ground = between = 0
    for a, b in itertools.combinations(range(model.ngeom), 2):
        if not _may_touch(model, a, b):
            continue
        if model.geom_bodyid[a]:
            between += _BETWEEN_TWO
        elif model.geom_type[a] == mujoco.mjtGeom.mjGEOM_PLANE:
            ground += _ON_PLANE.get(int(model.geom_type[b]), 8)
        else:
            ground += _ON_FIELD
    return ground + min(between, _BETWEEN_ALL)


def _may_touch(model: Any, a: int, b: int) -> bool:
    """Return whether two geoms of different bodies collide; those of the ground come first."""
    bits = (model.geom_contype[a] & model.geom_conaffinity[b]) | (model.geom_contype[b] & model.geom_conaffinity[a])
    return bool(bits) and model.geom_bodyid[a] != model.geom_bodyid[b]
