"""Ground of the Isaac Gym engine: a plane, a height field or a triangle mesh."""

# pyright: reportMissingModuleSource=false
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional, Tuple, Union

import numpy as np
from isaacgym import gymapi

from rsl_rl.utils import height_field

FRICTION = 0.0
"""Friction of every ground. PhysX uses the mean of ground and robot, so the robot's shapes get twice the wanted
friction, and all frictions from zero are possible."""

VERTICAL_SCALE = 0.001
"""One count of the height samples, which are 16-bit [m]."""


@dataclass(frozen=True)
class Plane:
    """The floor z = 0."""

    def add_to(self, gym: gymapi.Gym, sim: gymapi.Sim) -> None:
        params = gymapi.PlaneParams()
        params.normal = gymapi.Vec3(0.0, 0.0, 1.0)
        params.static_friction = params.dynamic_friction = FRICTION
        params.restitution = 0.0
        gym.add_ground(sim, params)


@dataclass(frozen=True)
class HeightField(height_field.HeightField):
    """Heights on a regular grid, which the engine rounds to VERTICAL_SCALE."""

    origin: Tuple[float, float] = (0.0, 0.0)
    """World coordinates x, y of the first point [m]."""

    def __post_init__(self):
        super().__post_init__()
        limit = VERTICAL_SCALE * np.iinfo(np.int16).max
        if not np.abs(self.heights).max() <= limit:
            raise ValueError(f"heights reach {np.abs(self.heights).max():g} m; the engine takes up to {limit:g} m")

    def add_to(self, gym: gymapi.Gym, sim: gymapi.Sim) -> None:
        params = gymapi.HeightFieldParams()
        # The engine reads the samples by columns, and a column is along y: its rows are the points along y.
        params.nbRows, params.nbColumns = self.heights.shape[1], self.heights.shape[0]
        params.row_scale = params.column_scale = self.cell
        params.vertical_scale = VERTICAL_SCALE
        params.transform.p = gymapi.Vec3(*self.origin, 0.0)
        params.static_friction = params.dynamic_friction = FRICTION
        params.restitution = 0.0
        counts: Any = np.rint(np.asarray(self.heights) / VERTICAL_SCALE).astype(np.int16)
        gym.add_heightfield(sim, counts.flatten(), params)  # Any: the stub's ndarray[int16] is no type of numpy's


@dataclass(frozen=True)
class TriangleMesh:
    """Any surface; triangles are visible from the side where their corners are in counterclockwise order."""

    vertices: np.ndarray
    """Corners [V, 3] in world coordinates [m]."""
    triangles: np.ndarray
    """Numbers of each triangle's corners [T, 3]."""

    def __post_init__(self):
        for name in ("vertices", "triangles"):
            shape = np.shape(getattr(self, name))
            if len(shape) != 2 or shape[1] != 3 or not shape[0]:
                raise ValueError(f"{name} of shape {list(shape)}; give rows of three")
        if not 0 <= np.min(self.triangles) <= np.max(self.triangles) < len(self.vertices):
            raise ValueError(f"triangles name corners outside 0 to {len(self.vertices) - 1}; there are no others")

    def add_to(self, gym: gymapi.Gym, sim: gymapi.Sim) -> None:
        params = gymapi.TriangleMeshParams()
        params.nb_vertices, params.nb_triangles = len(self.vertices), len(self.triangles)
        params.static_friction = params.dynamic_friction = FRICTION
        params.restitution = 0.0
        vertices: Any = np.asarray(self.vertices, dtype=np.float32).flatten()
        triangles: Any = np.asarray(self.triangles, dtype=np.uint32).flatten()
        gym.add_triangle_mesh(sim, vertices, triangles, params)


Ground = Union[Plane, HeightField, TriangleMesh]


def engine_ground(ground: Optional[Union[Ground, height_field.HeightField]]) -> Ground:
    """Return the ground in this engine's terms; None is the plane."""
    if isinstance(ground, height_field.HeightField):
        return HeightField(ground.heights, ground.cell, ground.origin)
    return ground or Plane()
