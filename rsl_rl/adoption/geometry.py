"""Points on the shapes of a compiled model, and primitive shapes around points."""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
from __future__ import annotations

import itertools
from typing import Any, List, NamedTuple, Tuple

import mujoco
import numpy as np

_GEOM = mujoco.mjtGeom
MESHES = (int(_GEOM.mjGEOM_MESH), int(_GEOM.mjGEOM_SDF))
_CORNERS = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))
_DIRECTIONS = np.array([d for d in itertools.product((-1.0, 0.0, 1.0), repeat=3) if any(d)])
_SPHERE = _DIRECTIONS / np.linalg.norm(_DIRECTIONS, axis=1, keepdims=True)
_MAX_VERTICES = 400
"""Vertices used of a mesh, about."""

_SLENDER = 1.8
"""A shape longer than this times its width is a capsule, another one a box."""

_COMPACT, _SPREAD = 0.05, 0.45
"""Smallest and largest radius of gyration of a body: as a fraction of the distance from its centre to its corners, and
of the size of the robot."""

_LIGHT, _WATER = 2e-3, 1000.0
"""Mass below which the inertia of a body does not matter [kg]; density [kg/m^3]."""


class Shape(NamedTuple):
    """A primitive shape in the frame of its body."""

    kind: int  # mujoco.mjtGeom
    size: Tuple[float, ...]  # as in MJCF [m]
    pos: np.ndarray  # [3] [m]
    mat: np.ndarray  # [3, 3] shape to body


def geoms_of(model: Any, body: int) -> List[int]:
    """Return the geoms of a body that collide, or else those that are only seen."""
    first, count = int(model.body_geomadr[body]), int(model.body_geomnum[body])
    every = list(range(first, first + count)) if count else []
    colliding = [geom for geom in every if model.geom_contype[geom] or model.geom_conaffinity[geom]]
    return colliding or every


def rotation(quat: np.ndarray) -> np.ndarray:
    """Return the rotation matrix of a quaternion w x y z."""
    mat = np.zeros(9)
    mujoco.mju_quat2Mat(mat, np.asarray(quat, dtype=float))
    return mat.reshape(3, 3)


def shape_of(model: Any, geom: int) -> Shape:
    """Return a geom as a primitive shape; around a mesh, one is fitted."""
    kind = int(model.geom_type[geom])
    if kind in MESHES:
        return fit(points_of(model, geom))
    return Shape(kind, tuple(model.geom_size[geom]), model.geom_pos[geom].copy(), rotation(model.geom_quat[geom]))


def points_of(model: Any, geom: int) -> np.ndarray:
    """Return points on the surface of a geom, [n, 3] in the frame of its body."""
    kind = int(model.geom_type[geom])
    if kind in MESHES:
        mesh = model.geom_dataid[geom]
        first, count = model.mesh_vertadr[mesh], model.mesh_vertnum[mesh]
        local = model.mesh_vert[first : first + count].astype(float)
        if count > _MAX_VERTICES:  # evenly spaced ones and the outermost ones
            even = np.linspace(0, count - 1, _MAX_VERTICES).astype(int)
            local = local[np.unique(np.concatenate([(local @ _SPHERE.T).argmax(axis=0), even]))]
    else:
        local = _points_of_primitive(kind, model.geom_size[geom])
    return local @ rotation(model.geom_quat[geom]).T + model.geom_pos[geom]


def _points_of_primitive(kind: int, size: np.ndarray) -> np.ndarray:
    if kind == _GEOM.mjGEOM_SPHERE:
        return size[0] * _SPHERE
    if kind == _GEOM.mjGEOM_CAPSULE:
        end = np.array([0.0, 0.0, size[1]])
        return np.concatenate([size[0] * _SPHERE + end, size[0] * _SPHERE - end])
    if kind == _GEOM.mjGEOM_CYLINDER:
        angle = np.linspace(0, 2 * np.pi, 12, endpoint=False)
        rim = np.stack([size[0] * np.cos(angle), size[0] * np.sin(angle), np.full(12, size[1])], axis=1)
        return np.concatenate([rim, rim * [1, 1, -1]])
    if kind == _GEOM.mjGEOM_ELLIPSOID:
        return _SPHERE * size
    if kind == _GEOM.mjGEOM_BOX:
        return _CORNERS * size
    return np.zeros((0, 3))  # planes and height fields are not a part of a robot


def fit(points: np.ndarray) -> Shape:
    """Return a capsule or a box around points [n, 3]."""
    axes = np.linalg.svd(points - points.mean(axis=0), full_matrices=True)[2] if len(points) > 1 else np.eye(3)
    mat = axes[::-1].T.copy()  # longest extent last
    aligned = _box(points, np.eye(3))
    own = _box(points, mat)
    if np.prod(aligned[1]) <= 1.1 * np.prod(own[1]):  # along the body's axes, where that is about as tight
        order = np.argsort(aligned[1])
        mat = np.eye(3)[:, order]
        own = (aligned[0], aligned[1][order])
    if np.linalg.det(mat) < 0:
        mat[:, 0] *= -1
    center, half = own
    half = np.maximum(half, 1e-3)
    if half[2] > _SLENDER * half[1]:
        radius = float(half[:2].mean())
        return Shape(int(_GEOM.mjGEOM_CAPSULE), (radius, float(half[2] - radius), 0.0), center, mat)
    return Shape(int(_GEOM.mjGEOM_BOX), tuple(float(x) for x in half), center, mat)


def _box(points: np.ndarray, mat: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """Return centre [3] and half extents [3] of the box around points, with the axes ``mat``."""
    local = points @ mat
    low, high = local.min(axis=0), local.max(axis=0)
    return mat @ ((low + high) / 2), (high - low) / 2


def mend_inertias(model: Any) -> List[str]:
    """Replace inertias that cannot be those of the mass and the shape of a body; return the names of the bodies.

    The inertia of a body with shapes becomes that of a solid box around them, that of another body the inertia of a
    ball of water. Files without inertias have zeros there, which MuJoCo replaces by a smallest value, or ones.
    """
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    robot_size = float(np.linalg.norm(np.ptp(data.xpos[1:], axis=0)))
    names = []
    for body in range(1, model.nbody):
        mass = float(model.body_mass[body])
        if mass < _LIGHT:
            continue
        points = [points_of(model, geom) for geom in geoms_of(model, body)]
        cloud = np.concatenate([np.zeros((0, 3)), *points])
        half, mat = np.full(3, (3 * mass / (4 * np.pi * _WATER)) ** (1 / 3)), np.eye(3)
        solid = np.full(3, 0.4 * mass * half[0] ** 2)
        if len(cloud) > 1 and np.ptp(cloud, axis=0).max() > 1e-3:
            shape = fit(cloud)
            half, mat = _half_extents(shape), shape.mat
            solid = mass / 3 * ((half**2).sum() - half**2)
        inertia = model.body_inertia[body]
        gyration = np.sqrt(float(inertia.max()) / mass)
        if gyration < _COMPACT * np.linalg.norm(half) or gyration > _SPREAD * robot_size or (inertia == 1.0).all():
            quat = np.zeros(4)
            mujoco.mju_mat2Quat(quat, np.ascontiguousarray(mat).reshape(9))
            model.body_inertia[body], model.body_iquat[body] = solid, quat
            names.append(model.body(body).name)
    return names


def _half_extents(shape: Shape) -> np.ndarray:
    """Return half the lengths of the edges of the box around a fitted shape, [3] along its axes."""
    if shape.kind == _GEOM.mjGEOM_CAPSULE:
        radius, length = shape.size[:2]
        return np.array([radius, radius, radius + length])
    return np.array(shape.size)


def inertia_box(model: Any, body: int) -> Shape:
    """Return the box with the mass and the inertia of a body."""
    mass, (x, y, z) = float(model.body_mass[body]), model.body_inertia[body]
    square = np.maximum(np.array([y + z - x, x + z - y, x + y - z]) * 6 / mass, 1e-6)
    half = np.sqrt(square) / 2
    return Shape(
        int(_GEOM.mjGEOM_BOX),
        tuple(float(h) for h in half),
        model.body_ipos[body].copy(),
        rotation(model.body_iquat[body]),
    )


def points_of_shape(shape: Shape) -> np.ndarray:
    """Return points on the surface of a shape, [n, 3] in the frame of its body."""
    return _points_of_primitive(shape.kind, np.array(shape.size)) @ shape.mat.T + shape.pos
