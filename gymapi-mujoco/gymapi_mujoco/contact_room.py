"""How many contacts and constraints a world of MuJoCo Warp has room for: its buffers have a fixed size."""

# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import itertools
import os
from typing import Any, Tuple

import mujoco

VARIABLE = "GYMAPI_MUJOCO_CONTACTS"

_FEW = {int(mujoco.mjtGeom.mjGEOM_SPHERE): 1, int(mujoco.mjtGeom.mjGEOM_CAPSULE): 2}
"""Contacts of a shape with the ground, by its type; 4 of others on a plane, and of all on a height field."""

_BETWEEN_SHAPES = 64
"""Room for contacts between the actors' shapes, of which a robot with many has far more pairs than can touch."""

_MOST = 256
"""Room by default, whatever the number of shapes."""


def room(model: Any) -> Tuple[int, int]:
    """Return the numbers of contacts and of constraint rows of a world; ``GYMAPI_MUJOCO_CONTACTS`` sets the first."""
    given = os.environ.get(VARIABLE, "")
    if given and (not given.isdecimal() or int(given) < 1):
        raise ValueError(f"{VARIABLE}={given}: give the number of contacts that an environment has room for")
    contacts = int(given) if given else min(_MOST, max(8, _contacts(model)))
    return contacts, 4 * contacts + 2 * int(model.jnt_limited.sum())  # a contact's cone has four edges


def _contacts(model: Any) -> int:
    """Return how many contacts are possible, those between actors' shapes up to a limit."""
    ground = between = 0
    for a, b in itertools.combinations(range(model.ngeom), 2):
        bodies = model.geom_bodyid[a], model.geom_bodyid[b]
        one, other = (model.geom_contype[a], model.geom_conaffinity[a]), (
            model.geom_contype[b],
            model.geom_conaffinity[b],
        )
        if bodies[0] == bodies[1] or not (one[0] & other[1] or other[0] & one[1]):
            continue
        if 0 in bodies:
            field, shape = (a, b) if bodies[0] == 0 else (b, a)
            flat = model.geom_type[field] == mujoco.mjtGeom.mjGEOM_PLANE
            ground += _FEW.get(int(model.geom_type[shape]), 4) if flat else 4
        else:
            between += 4
    return ground + min(between, _BETWEEN_SHAPES)
