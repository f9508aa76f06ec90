"""Dots in a scene of MuJoCo, such as the points of a height scan."""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
from __future__ import annotations

import mujoco
import numpy as np

_RADIUS = 0.012  # [m]

COLOR = (0.9, 0.25, 0.1)
"""Red, green and blue."""


def add_dots(scene: mujoco.MjvScene, points: np.ndarray) -> None:
    """Add small spheres at points [K, 3] to a scene, as many as it can take."""
    sphere, size, turn = mujoco.mjtGeom.mjGEOM_SPHERE, np.full(3, _RADIUS), np.eye(3).ravel()
    color = np.array((*COLOR, 1.0), dtype=np.float32)
    for point in points[: scene.maxgeom - scene.ngeom]:
        mujoco.mjv_initGeom(scene.geoms[scene.ngeom], sphere, size, point.astype(np.float64), turn, color)
        scene.ngeom += 1
