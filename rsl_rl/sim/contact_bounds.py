"""Upper bounds of the numbers of contacts and constraints of a model, for engines with fixed buffers."""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
from __future__ import annotations

import itertools
from typing import Any, Iterator, Tuple

import mujoco

_PLANE, _HFIELD = int(mujoco.mjtGeom.mjGEOM_PLANE), int(mujoco.mjtGeom.mjGEOM_HFIELD)
_SPHERE, _CAPSULE = int(mujoco.mjtGeom.mjGEOM_SPHERE), int(mujoco.mjtGeom.mjGEOM_CAPSULE)

_MAX_HFIELD_CONTACTS = 4
"""Contacts that MuJoCo Warp keeps of one geom with a height field."""


def max_contacts(model: Any) -> int:
    """Return the largest number of contacts that the geoms of a ``mujoco.MjModel`` can have at once."""
    return max(1, sum(_contacts_of(*types) for types in _pairs(model)))


def max_constraints(model: Any, num_contacts: int) -> int:
    """Return the largest number of constraint rows of a model with this number of contacts."""
    condim = max([1, *model.geom_condim, *model.pair_dim])
    pyramidal = model.opt.cone == mujoco.mjtCone.mjCONE_PYRAMIDAL
    rows = 2 * (condim - 1) if pyramidal and condim > 1 else condim
    limits = 2 * int(model.jnt_limited.sum()) + 2 * int(model.tendon_limited.sum())
    losses = int((model.dof_frictionloss > 0).sum()) + int((model.tendon_frictionloss > 0).sum())
    return int(num_contacts * rows) + limits + losses + 6 * int(model.neq)


def _pairs(model: Any) -> Iterator[Tuple[int, int]]:
    """Yield the two types of each pair of geoms that may touch, smaller type first."""
    for a, b in itertools.combinations(range(model.ngeom), 2):
        wanted = (model.geom_contype[a] & model.geom_conaffinity[b]) | (
            model.geom_contype[b] & model.geom_conaffinity[a]
        )
        if wanted and model.body_weldid[model.geom_bodyid[a]] != model.body_weldid[model.geom_bodyid[b]]:
            yield _types(model, a, b)
    for a, b in zip(model.pair_geom1, model.pair_geom2):
        yield _types(model, int(a), int(b))


def _types(model: Any, a: int, b: int) -> Tuple[int, int]:
    low, high = sorted((int(model.geom_type[a]), int(model.geom_type[b])))
    return low, high


def _contacts_of(low: int, high: int) -> int:
    """Return the most contacts of two geoms of these types, smaller type first."""
    if low == _HFIELD or high == _HFIELD:
        return _MAX_HFIELD_CONTACTS
    if _SPHERE in (low, high):
        return 1
    if high == _CAPSULE and low in (_PLANE, _CAPSULE):
        return 2
    return 8
