"""Find base, legs and feet of a compiled model, by its chains of joints and its shapes; names are not read."""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
from __future__ import annotations

from collections import Counter
from typing import Any, Dict, Iterable, List, NamedTuple, Sequence, Tuple

import mujoco
import numpy as np

from rsl_rl.adoption.geometry import geoms_of, inertia_box, points_of, points_of_shape
from rsl_rl.adoption.reading import SourceModel

_HINGE, _FREE = int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_FREE)

_REACH = 0.3
"""A chain whose lowest point is higher than the lowest one of all, by more than this fraction of the robot's height
below its base, is an arm and no leg."""

_ROUND = 0.15
"""A last link is a wheel if its lowest point moves by less than this fraction of its radius in a turn."""

_ALONG = 0.9
"""Smallest cosine between an axis and one that counts as parallel."""

ANKLE_JOINTS = 5
"""A leg with this many joints has an ankle, and its foot is flat."""


class Leg(NamedTuple):
    """A chain of hinges from the base to a foot."""

    joints: Tuple[int, ...]  # of the source model, from the base to the foot
    link: int  # body of the last joint


class Skeleton(NamedTuple):
    """The parts of a robot, as indices of the source model."""

    legs: Tuple[Leg, ...]
    other_joints: Tuple[int, ...]  # hinges and slides that belong to no leg
    frame: np.ndarray  # [3, 3] columns: forward, left and up in the frame of the base link


def find_skeleton(source: SourceModel) -> Skeleton:
    """Return the parts of a robot; a model without a legged robot is a ValueError."""
    model, path = source.model, source.path
    chains = _chains(model, source.base)
    if not chains:
        raise ValueError(f"{path} has no joints between links; a legged robot has legs with at least two joints each")
    data = posed(model, source.poses[0])
    up = _up(data, source.base, {leaf: link_points(model, data, leaf) for leaf in chains})
    data = max((posed(model, pose) for pose in source.poses), key=lambda d: _depth(model, d, source.base, chains, up))
    points = {leaf: link_points(model, data, leaf) for leaf in chains}
    legs = _legs(source, data, chains, points, up)
    _require_legs(source, data, legs)
    used = {joint for leg in legs for joint in leg.joints}
    inner = [j for j in range(model.njnt) if model.jnt_type[j] != _FREE and j not in used]
    others = tuple(j for j in inner if model.body_rootid[model.jnt_bodyid[j]] == source.base)
    return Skeleton(legs, others, _frame(data, source.base, legs, up))


def posed(model: Any, qpos: np.ndarray) -> Any:
    """Return data of a model in a pose, with positions computed."""
    data = mujoco.MjData(model)
    data.qpos[:] = qpos
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    return data


def members(model: Any, link: int) -> List[int]:
    """Return the bodies that are fixed to a link, itself included."""
    return [body for body in range(1, model.nbody) if model.body_weldid[body] == link]


def link_points(model: Any, data: Any, link: int) -> np.ndarray:
    """Return points on the shapes of a link and of what is fixed to it, [n, 3] in world coordinates.

    A link without shapes has the box of its inertia and the origins of the frames that are fixed to it.
    """
    found: List[np.ndarray] = []
    bodies = members(model, link)
    for body in bodies:
        local = [points_of(model, geom) for geom in geoms_of(model, body)]
        found += [_to_world(data, body, points) for points in local if len(points)]
    if not found:
        found = [data.xpos[bodies]]
        heavy = [body for body in bodies if model.body_mass[body] > 1e-3]
        found += [_to_world(data, body, points_of_shape(inertia_box(model, body))) for body in heavy]
    return np.concatenate(found)


def _to_world(data: Any, body: int, points: np.ndarray) -> np.ndarray:
    return points @ data.xmat[body].reshape(3, 3).T + data.xpos[body]


def _chains(model: Any, base: int) -> Dict[int, Tuple[int, ...]]:
    """Return the joints from the base to each last link."""
    paths: Dict[int, Tuple[int, ...]] = {base: ()}
    parents = set()
    for body in range(base + 1, model.nbody):
        if model.body_rootid[body] != base or model.body_weldid[body] != body:
            continue
        parent = int(model.body_weldid[model.body_parentid[body]])
        first, count = int(model.body_jntadr[body]), int(model.body_jntnum[body])
        paths[body] = (*paths[parent], *range(first, first + count))
        parents.add(parent)
    return {body: path for body, path in paths.items() if path and body not in parents}


def _up(data: Any, base: int, points: Dict[int, np.ndarray]) -> np.ndarray:
    """Return the axis of the world that points up: away from the last links that are farthest from the base."""
    origin = data.xpos[base]
    centers = np.array([p.mean(axis=0) - origin for p in points.values()])
    length = np.linalg.norm(centers, axis=1)
    down = centers[length > 0.5 * length.max()].mean(axis=0)
    axis = int(np.abs(down).argmax())
    up = np.zeros(3)
    if abs(down[axis]) < 0.5 * length.max() or axis == 2:
        axis = 2
    up[axis] = 1.0 if axis == 2 else -np.sign(down[axis])
    return up


def _depth(model: Any, data: Any, base: int, chains: Iterable[int], up: np.ndarray) -> float:
    """Return how far the last links reach below the base link [m]."""
    lowest = min(float((link_points(model, data, leaf) @ up).min()) for leaf in chains)
    return float(data.xpos[base] @ up) - lowest


def _legs(
    source: SourceModel, data: Any, chains: Dict[int, Tuple[int, ...]], points: Dict[int, np.ndarray], up: np.ndarray
) -> Tuple[Leg, ...]:
    model = source.model
    lowest = {leaf: float((points[leaf] @ up).min()) for leaf in chains}
    base_points = link_points(model, data, source.base) @ up
    floor = min(lowest.values())
    height = float(np.median(base_points)) - floor
    if height <= 0 or floor > base_points.min():
        raise ValueError(f"{source.path} has no legs: no chain of joints reaches below its base link")
    feet = [leaf for leaf in chains if lowest[leaf] < floor + _REACH * height]
    legs: List[Leg] = []
    for leaf in feet:
        leg = Leg(chains[leaf], leaf)
        for other in legs:
            shared = tuple(joint for joint in other.joints if joint in leg.joints)
            if len(shared) > 0.6 * max(len(other.joints), len(leg.joints)):  # two toes of one foot: they are locked
                legs.remove(other)
                leg = Leg(shared, int(model.jnt_bodyid[shared[-1]]))
                break
        legs.append(leg)
    counts = Counter(joint for leg in legs for joint in leg.joints)
    return tuple(Leg(tuple(j for j in leg.joints if counts[j] == 1), leg.link) for leg in legs)


def _require_legs(source: SourceModel, data: Any, legs: Sequence[Leg]) -> None:
    model, path = source.model, source.path
    names = [model.body(leg.link).name for leg in legs]
    wheels = [name for name, leg in zip(names, legs) if is_wheel(model, data, leg)]
    if wheels:
        raise ValueError(f"{path} stands on wheels ({', '.join(wheels)}); only robots with legs are supported")
    short = [name for name, leg in zip(names, legs) if len(leg.joints) < 2]
    if short:
        raise ValueError(
            f"{path} has no legs: the chain to {short[0]} has {len(legs[names.index(short[0])].joints)} joint(s) of "
            "its own; a leg has at least two"
        )
    if len(legs) < 2:
        raise ValueError(f"{path} has one leg ({names[0]}); robots with two or more legs are supported")
    if len(legs) % 2:
        raise ValueError(f"{path} has {len(legs)} legs ({', '.join(names)}); they must be pairs of left and right legs")
    other = next((joint for leg in legs for joint in leg.joints if model.jnt_type[joint] != _HINGE), None)
    if other is not None:
        name = model.joint(other).name
        raise ValueError(f"{path}: joint '{name}' of a leg slides or is a ball; only hinges are supported")


def is_wheel(model: Any, data: Any, leg: Leg) -> bool:
    """Return whether the last link of a chain is round about its joint, which has no limits."""
    if not leg.joints or model.jnt_limited[leg.joints[-1]]:
        return False
    joint = leg.joints[-1]
    axis, anchor = data.xaxis[joint], data.xanchor[joint]
    arms = link_points(model, data, leg.link) - anchor
    across = arms - np.outer(arms @ axis, axis)
    first = np.linalg.svd(across, full_matrices=False)[2][0]
    second = np.cross(axis, first)
    angles = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    directions = np.outer(np.cos(angles), first) + np.outer(np.sin(angles), second)
    reach = (across @ directions.T).max(axis=0)  # [24] of the link in each direction across the axis
    return bool(reach.min() > 0 and reach.max() - reach.min() < _ROUND * reach.max())


def _frame(data: Any, base: int, legs: Sequence[Leg], up: np.ndarray) -> np.ndarray:
    """Return forward, left and up in the frame of the base link.

    Knees turn about the sideways axis. Where they do not agree, it is y, or the other horizontal axis if only that is
    the axis of a mirror image of the hips. Forward is the positive direction of the remaining axis.
    """
    knees = np.array([data.xaxis[leg.joints[knee_of(len(leg.joints))]] for leg in legs])
    hips = np.array([data.xanchor[leg.joints[0]] - data.xpos[base] for leg in legs])
    size = np.linalg.norm(hips, axis=1).max() + 1e-6
    axes = [axis for axis in np.eye(3)[[1, 0, 2]] if abs(axis @ up) < 0.5]
    agree = [float(np.abs(knees @ axis).min()) for axis in axes]
    errors = [_mirror_error(hips, axis) / size for axis in axes]
    first = agree[0] > _ALONG or (agree[1] < _ALONG and (errors[0] < 0.1 or errors[0] <= errors[1]))
    forward = axes[1] if first else axes[0]
    world = np.stack([forward, np.cross(up, forward), up], axis=1)
    return data.xmat[base].reshape(3, 3).T @ world


def knee_of(count: int) -> int:
    """Return the position of the knee in a leg of ``count`` joints: the last one, or the fourth one with an ankle."""
    return 3 if count >= ANKLE_JOINTS else count - 1


def _mirror_error(points: np.ndarray, axis: np.ndarray) -> float:
    """Return the largest distance of a mirrored point from the nearest other point."""
    mirrored = points - 2 * np.outer(points @ axis, axis)
    distance = np.linalg.norm(mirrored[:, None] - points[None], axis=2)
    np.fill_diagonal(distance, np.inf)
    return float(distance.min(axis=1).max())
