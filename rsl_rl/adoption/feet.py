"""Find the shape of a foot: a ball at the end of a leg, or a box with a flat sole."""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
from __future__ import annotations

from typing import Any, NamedTuple, Optional, Tuple

import mujoco
import numpy as np

from rsl_rl.adoption.geometry import Shape, geoms_of, rotation
from rsl_rl.adoption.structure import ANKLE_JOINTS, Leg, link_points, members

_BALL, _BOX = int(mujoco.mjtGeom.mjGEOM_SPHERE), int(mujoco.mjtGeom.mjGEOM_BOX)
_CAPSULE = int(mujoco.mjtGeom.mjGEOM_CAPSULE)

_RADIUS = (0.06, 0.15)
"""Smallest and largest radius of a ball foot, as fractions of the length of its link."""


class Foot(NamedTuple):
    """The part of the last link that touches the floor."""

    shape: Shape  # in the frame of the last link
    height: float  # of its centre above the floor, standing [m]

    @property
    def is_flat(self) -> bool:
        return self.shape.kind == _BOX


def find_foot(model: Any, data: Any, leg: Leg, frame: np.ndarray) -> Foot:
    """Return the foot of a leg. ``frame`` are forward, left and up in the world, and ``data`` has zero joint angles."""
    origin, mat = data.xpos[leg.link], data.xmat[leg.link].reshape(3, 3)
    anchor = data.xanchor[leg.joints[-1]]
    if len(leg.joints) >= ANKLE_JOINTS:
        foot = _flat_foot(link_points(model, data, leg.link), anchor, frame)
    else:
        foot = _ball_foot(model, data, leg.link, anchor)
    shape = foot.shape
    return Foot(shape._replace(pos=mat.T @ (shape.pos - origin), mat=mat.T @ shape.mat), foot.height)


def _ball_foot(model: Any, data: Any, link: int, anchor: np.ndarray) -> Foot:
    """Return a ball at the point of the link that is farthest from its joint, in world coordinates."""
    points = link_points(model, data, link)
    reach = np.linalg.norm(points - anchor, axis=1)
    length = float(reach.max())
    own = _round_end(model, data, link, anchor, length)
    if own is None:
        tip = points[reach > 0.92 * length]
        along = tip.mean(axis=0) - anchor
        along /= np.linalg.norm(along)
        across = (tip - anchor) - np.outer((tip - anchor) @ along, along)
        width = float(np.linalg.norm(across - across.mean(axis=0), axis=1).max()) if len(tip) > 2 else 0.0
        radius = float(np.clip(width, _RADIUS[0] * length, _RADIUS[1] * length))
        center = anchor + across.mean(axis=0) + along * (float(((tip - anchor) @ along).max()) - radius)
        own = (center, radius)
    center, radius = own
    return Foot(Shape(_BALL, (radius, 0.0, 0.0), center, np.eye(3)), radius)


def _round_end(
    model: Any, data: Any, link: int, anchor: np.ndarray, length: float
) -> Optional[Tuple[np.ndarray, float]]:
    """Return centre and radius of a ball or of a capsule's end that the source has at the end of the link."""
    found = []
    for body in members(model, link):
        for geom in geoms_of(model, body):
            kind, size = int(model.geom_type[geom]), model.geom_size[geom]
            if kind not in (_BALL, _CAPSULE):
                continue
            mat = data.xmat[body].reshape(3, 3)
            center = data.xpos[body] + mat @ model.geom_pos[geom]
            if kind == _CAPSULE:
                axis = mat @ rotation(model.geom_quat[geom])[:, 2] * size[1]
                center = max((center + axis, center - axis), key=lambda end: float(np.linalg.norm(end - anchor)))
            found.append((float(np.linalg.norm(center - anchor)) + size[0], kind == _BALL, center, float(size[0])))
    found = [entry for entry in found if entry[0] > 0.93 * length and entry[3] < 0.4 * length]
    if not found:
        return None
    _, _, center, radius = max(found, key=lambda entry: (entry[1], entry[0]))
    return center, radius


def _flat_foot(points: np.ndarray, anchor: np.ndarray, frame: np.ndarray) -> Foot:
    """Return a box with the sole of the link, in world coordinates."""
    local = points @ frame  # forward, left, up
    bottom, ankle = float(local[:, 2].min()), float(anchor @ frame[:, 2])
    tall = max(ankle - bottom, 0.02)
    sole = local[local[:, 2] < bottom + 0.35 * tall]
    low, high = sole[:, :2].min(axis=0), sole[:, :2].max(axis=0)
    half = np.maximum((high - low) / 2, 0.3 * tall)
    thick = 0.25 * tall
    center = np.array([*((low + high) / 2), bottom + thick])
    return Foot(Shape(_BOX, (float(half[0]), float(half[1]), thick), frame @ center, frame), thick)


def shank_shape(foot: Foot, joint: np.ndarray) -> Shape:
    """Return a capsule between the joint of the last link and its ball foot, which does not touch a floor below it."""
    radius = 0.6 * foot.shape.size[0]
    along = foot.shape.pos - joint
    start, end = joint + 0.1 * along, joint + 0.9 * along
    length = float(np.linalg.norm(along))
    axis = along / length
    other = np.eye(3)[int(np.abs(axis).argmin())]
    first = np.cross(other, axis)
    first /= np.linalg.norm(first)
    mat = np.stack([first, np.cross(axis, first), axis], axis=1)
    return Shape(_CAPSULE, (radius, 0.4 * length, 0.0), (start + end) / 2, mat)
