"""Scenes of MuJoCo: how far a camera is from a robot, dots, such as the points of a height scan, and axes."""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
from __future__ import annotations

import copy
from typing import Any

import mujoco
import numpy as np

_EXTENT, _HEIGHT = 1.5, 0.3  # of the <statistic> of go2.xml [m]

_RADIUS = 0.012  # [m]

_SPACING = 1.5  # between the starting points of robots on a plane [m]

COLOR = (0.9, 0.25, 0.1)
"""Red, green and blue."""

GHOST_COLOR, GHOST_ALPHA = (0.15, 0.55, 0.95), 0.35
"""Red, green and blue of a pose that is drawn beside a robot, and its opacity."""


def add_dots(scene: mujoco.MjvScene, points: np.ndarray) -> None:
    """Add small spheres at points [K, 3] to a scene, as many as it can take."""
    sphere, size, turn = mujoco.mjtGeom.mjGEOM_SPHERE, np.full(3, _RADIUS), np.eye(3).ravel()
    color = np.array((*COLOR, 1.0), dtype=np.float32)
    for point in points[: scene.maxgeom - scene.ngeom]:
        mujoco.mjv_initGeom(scene.geoms[scene.ngeom], sphere, size, point.astype(np.float64), turn, color)
        scene.ngeom += 1


def add_axes(scene: mujoco.MjvScene, origin: np.ndarray, mat: np.ndarray, length: float) -> None:
    """Add arrows along the axes of a body to a scene, x red, y green, z blue; ``mat`` is [3, 3] body to world."""
    for i, axis in enumerate(mat.T):
        if scene.ngeom == scene.maxgeom:
            return
        geom = scene.geoms[scene.ngeom]
        color = np.append(np.eye(3)[i], 1.0).astype(np.float32)
        mujoco.mjv_initGeom(geom, mujoco.mjtGeom.mjGEOM_ARROW, np.zeros(3), np.zeros(3), np.zeros(9), color)
        mujoco.mjv_connector(geom, mujoco.mjtGeom.mjGEOM_ARROW, 0.02 * length, origin, origin + length * axis)
        scene.ngeom += 1


def ghost_of(model: Any) -> Any:
    """Return a copy of a ``mujoco.MjModel`` whose shapes are transparent and of one colour."""
    ghost = copy.copy(model)
    ghost.geom_matid[:] = -1
    visible = ghost.geom_rgba[:, 3:] > 0
    ghost.geom_rgba[:] = np.where(visible, np.array([*GHOST_COLOR, GHOST_ALPHA]), ghost.geom_rgba)
    return ghost


def add_pose(scene: mujoco.MjvScene, model: Any, data: Any, qpos: np.ndarray) -> None:
    """Add the moving shapes of a model in a pose to a scene; ``data`` is that of the model, and is written to."""
    data.qpos[:] = qpos
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    option, perturb = mujoco.MjvOption(), mujoco.MjvPerturb()
    mujoco.mjv_addGeoms(model, data, option, perturb, mujoco.mjtCatBit.mjCAT_DYNAMIC.value, scene)


def draw_faster(model: Any, reach: float) -> None:
    """Change how a ``mujoco.MjModel`` is drawn, so that OpenGL on a CPU takes about 60 % of the time; the change is
    hard to see.

    Infinite planes become squares that reach as far as cameras see that are up to ``reach`` [m] from the planes'
    positions, along x and y. Planes stay infinite if a lamp lights a part of them only, or if the plane's size would
    stretch their texture. Round shapes and boxes have fewer faces, and shadows a map of at most 2048 x 2048.
    """
    planes = (model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE) & (model.geom_size[:, :2] == 0).all(axis=1)
    stretched = (model.mat_texid >= 0).any(axis=1) & (model.mat_texuniform == 0)  # of each material
    planes &= ~np.append(stretched, False)[model.geom_matid]  # -1, no material, is the last
    if (model.light_type == mujoco.mjtLightType.mjLIGHT_DIRECTIONAL).all():
        # the third size, the distance of grid lines, costs time when it is small
        model.geom_size[planes] = model.vis.map.zfar * model.stat.extent + reach
    quality = model.vis.quality
    quality.shadowsize = min(quality.shadowsize, 2048)
    quality.numslices, quality.numstacks = min(quality.numslices, 20), min(quality.numstacks, 12)
    quality.numquads = min(quality.numquads, 2)


def scale_of(model: Any) -> float:
    """Return how many times the size of a Go2 a ``mujoco.MjModel`` has, by the extent of its <statistic>."""
    return float(model.stat.extent) / _EXTENT


def height_to_look_at(model: Any) -> float:
    """Return the height that a camera looks at [m]: 0.25 for a Go2, by the centre of the <statistic>."""
    return 0.25 * float(model.stat.center[2]) / _HEIGHT


def places_of(count: int) -> np.ndarray:
    """Return how far to move robots that start at one place on a plane, so that they stand apart, [count, 2]."""
    side = int(np.ceil(np.sqrt(count)))
    return _SPACING * np.array([(i // side, i % side) for i in range(count)], dtype=float)
