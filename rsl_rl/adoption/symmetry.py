"""Find the left-right symmetry of a robot from its geometry, and check it in random poses."""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
from __future__ import annotations

from typing import Any, NamedTuple, Tuple

import mujoco
import numpy as np

from rsl_rl.adoption.links import LinkTree

MIRROR = np.array([1.0, -1.0, 1.0])
"""The mirror image of a point in the base frame: y points left."""

_TOLERANCE = 0.02
"""Largest error of a mirrored foot, as a fraction of the distance from base to foot."""


class Symmetry(NamedTuple):
    """The left-right mirror image of joints and feet."""

    joints: Tuple[int, ...]  # index of the joint on the other side
    signs: Tuple[float, ...]  # sign of its angle
    feet: Tuple[int, ...]  # index of the foot on the other side
    error: float  # largest distance between a foot and its mirror image in random poses [m]
    holds: bool  # whether that is small


def find_symmetry(model: Any, tree: LinkTree, seed: int = 0, num_poses: int = 100) -> Symmetry:
    """Return the symmetry of the prepared model."""
    data = mujoco.MjData(model)
    data.qpos[:7], data.qpos[7:] = [0, 0, 0, 1, 0, 0, 0], 0.0
    mujoco.mj_kinematics(model, data)
    names = [model.joint(i).name for i in range(1, model.njnt)]
    joints, signs = list(range(len(names))), [1.0] * len(names)
    fits = True
    for left, right in zip(tree.legs[::2], tree.legs[1::2]):
        fits &= len(left.joints) == len(right.joints)
        for a, b in zip(left.joints, right.joints):
            i, j = names.index(a), names.index(b)
            alignment = float(data.xaxis[j + 1] @ (-MIRROR * data.xaxis[i + 1]))  # a turn is mirrored with a minus
            fits &= abs(alignment) > 0.95
            joints[i], joints[j] = j, i
            signs[i] = signs[j] = 1.0 if alignment > 0 else -1.0
    feet = tuple(i ^ 1 for i in range(len(tree.legs)))
    error = mirror_error(model, tree, joints, signs, seed, num_poses) if fits else float("inf")
    size = max(float(np.linalg.norm(data.site(leg.foot).xpos)) for leg in tree.legs)
    return Symmetry(tuple(joints), tuple(signs), feet, error, error < _TOLERANCE * size)


def mirror_error(model: Any, tree: LinkTree, joints: Any, signs: Any, seed: int, num_poses: int) -> float:
    """Return the largest distance of a foot from the mirror image of the other one, when joint angles are mirrored."""
    random = np.random.default_rng(seed)
    low, high = model.jnt_range[1:].T
    mirrored_range = np.sort(np.array(signs)[:, None] * model.jnt_range[1:][list(joints)], axis=1)
    low, high = np.maximum(low, mirrored_range[:, 0]), np.minimum(high, mirrored_range[:, 1])
    sites = [model.site(leg.foot).id for leg in tree.legs]
    worst = 0.0
    data, other = mujoco.MjData(model), mujoco.MjData(model)
    for _ in range(num_poses):
        angles = random.uniform(low, np.maximum(low, high))
        for d, values in ((data, angles), (other, np.array(signs) * angles[list(joints)])):
            d.qpos[:3], d.qpos[3:7], d.qpos[7:] = 0.0, [1, 0, 0, 0], values
            mujoco.mj_kinematics(model, d)
        difference = data.site_xpos[sites] * MIRROR - other.site_xpos[[site for site in _swapped(sites)]]
        worst = max(worst, float(np.linalg.norm(difference, axis=1).max()))
    return worst


def _swapped(sites: Any) -> Any:
    return [sites[i ^ 1] for i in range(len(sites))]
