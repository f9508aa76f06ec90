"""Ground: planes and height fields; triangle meshes become height fields."""

# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

from dataclasses import dataclass
from typing import Tuple, Union

import mujoco
import numpy as np

from gymapi_mujoco.structs import (
    HeightFieldParams,
    PlaneParams,
    Quat,
    Transform,
    TriangleMeshParams,
    as_array,
    from_wxyz,
    to_wxyz,
)

_BASE = 1.0
"""Thickness of the solid under the lowest point of a height field [m]."""

_MAX_POINTS = 4_000_000
"""About the largest number of points of a grid; a larger mesh gets a coarser grid."""


@dataclass
class Plane:
    friction: float
    restitution: float
    normal: np.ndarray
    distance: float
    """The plane is n . x + distance = 0."""

    @classmethod
    def from_params(cls, params: PlaneParams) -> Plane:
        normal = as_array(params.normal)
        if not np.linalg.norm(normal) > 0:
            raise ValueError("add_ground: the normal is zero; for a horizontal ground give Vec3(0, 0, 1)")
        return cls(params.dynamic_friction, params.restitution, normal / np.linalg.norm(normal), params.distance)

    def add_to(self, spec: mujoco.MjSpec, name: str) -> mujoco.MjsGeom:
        quat = np.zeros(4)
        mujoco.mju_quatZ2Vec(quat, self.normal)
        pos = -self.distance * self.normal
        kind = mujoco.mjtGeom.mjGEOM_PLANE
        return spec.worldbody.add_geom(name=name, type=kind, size=[0, 0, 1], pos=pos, quat=quat)

    def moved(self, origins: np.ndarray) -> np.ndarray:
        """Return by how much the ground is away from its place for frames at origins [N, 3]."""
        return -(origins @ self.normal)[:, None] * self.normal


@dataclass
class HeightField:
    friction: float
    restitution: float
    heights: np.ndarray
    """Heights [points along x, points along y] in m."""
    cell: Tuple[float, float]
    """Distance of neighbouring points along x and y [m]."""
    origin: np.ndarray
    """Position of the first point; its z is added to the heights [3]."""

    @classmethod
    def from_samples(cls, samples: np.ndarray, params: HeightFieldParams) -> HeightField:
        samples = np.asarray(samples)
        if samples.size != params.nbRows * params.nbColumns or min(params.nbRows, params.nbColumns) < 2:
            raise ValueError(
                f"add_heightfield: {samples.size} samples for nbRows={params.nbRows} and nbColumns={params.nbColumns}; "
                "give nbRows * nbColumns samples, at least 2 x 2"
            )
        _require_upright(params.transform, "add_heightfield")
        heights = samples.reshape(params.nbColumns, params.nbRows) * float(params.vertical_scale)
        cell = (params.column_scale, params.row_scale)
        return cls(params.dynamic_friction, params.restitution, heights, cell, as_array(params.transform.p))

    def add_to(self, spec: mujoco.MjSpec, name: str) -> mujoco.MjsGeom:
        nx, ny = self.heights.shape
        low, high = float(self.heights.min()), float(self.heights.max())
        rise = max(high - low, 1e-3)  # MuJoCo needs a positive one
        half = (self.cell[0] * (nx - 1) / 2, self.cell[1] * (ny - 1) / 2)
        data = ((self.heights - low) / rise).T.astype(np.float32)  # MuJoCo's rows are along y
        spec.add_hfield(name=name, nrow=ny, ncol=nx, size=[*half, rise, _BASE], userdata=data.ravel())
        pos = self.origin + np.array([*half, low])
        return spec.worldbody.add_geom(name=name, type=mujoco.mjtGeom.mjGEOM_HFIELD, hfieldname=name, pos=pos)

    def moved(self, origins: np.ndarray) -> np.ndarray:
        """Return by how much the ground is away from its place for frames at origins [N, 3]."""
        return -origins

    @classmethod
    def from_mesh(cls, vertices: np.ndarray, triangles: np.ndarray, params: TriangleMeshParams) -> HeightField:
        """Make a height field of a mesh, seen from above; what is below an overhang is lost."""
        vertices, triangles = np.asarray(vertices), np.asarray(triangles)
        if vertices.size != 3 * params.nb_vertices or triangles.size != 3 * params.nb_triangles:
            raise ValueError(
                f"add_triangle_mesh: {vertices.size} numbers for nb_vertices={params.nb_vertices} and {triangles.size} "
                f"for nb_triangles={params.nb_triangles}; give three numbers for each"
            )
        _require_upright(params.transform, "add_triangle_mesh")
        points = vertices.reshape(-1, 3).astype(np.float64)
        faces = triangles.reshape(-1, 3).astype(np.int64)
        if not len(faces) or faces.max() >= len(points):
            raise ValueError(f"add_triangle_mesh: triangles name vertices beyond the {len(points)} given")
        found = find_grid(points)
        if found is None:
            found = rasterize(points, faces)
        heights, cell, first = found
        return cls(
            params.dynamic_friction,
            params.restitution,
            heights,
            (cell, cell),
            as_array(params.transform.p) + np.array([*first, 0.0]),
        )


Ground = Union[Plane, HeightField]
Grid = Tuple[np.ndarray, float, np.ndarray]
"""Heights [nx, ny], cell [m], x and y of the first point [2]."""


def _require_upright(transform: Transform, call: str) -> None:
    if transform.r != Quat() and transform.r != from_wxyz(-to_wxyz(Quat())):
        raise NotImplementedError(f"{call}: a ground that is rotated by transform.r; rotate its heights instead")


def find_grid(points: np.ndarray) -> Union[Grid, None]:
    """Return the heights of vertices [V, 3] that are a regular grid, row by row along y; None if they are none.

    Walls of such meshes are made by moving single vertices sideways by one cell, so most must be in place.
    """
    steps = np.diff(points[: min(len(points), 4096), 1])
    cell = float(np.median(steps))
    if cell <= 0:
        return None
    first, last = points[:, :2].min(axis=0), points[:, :2].max(axis=0)
    nx, ny = (np.rint((last - first) / cell) + 1).astype(int)
    if nx < 2 or ny < 2 or nx * ny != len(points):
        return None
    cell = float((last[0] - first[0]) / (nx - 1))  # the median of float32 differences is not exact
    grid = points.reshape(nx, ny, 3)
    x, y = first[0] + cell * np.arange(nx), first[1] + cell * np.arange(ny)
    error = np.maximum(np.abs(grid[..., 0] - x[:, None]), np.abs(grid[..., 1] - y))
    if error.max() > 1.1 * cell or np.mean(error > 0.1 * cell) > 0.5:
        return None
    return grid[..., 2].copy(), cell, first


def rasterize(points: np.ndarray, faces: np.ndarray) -> Grid:
    """Return the upper surface of a triangle mesh on a grid whose cell is the median length of the edges' sides.

    Points of the grid that no triangle covers get the mesh's lowest height.
    """
    corners = points[faces]  # [F, 3, 3]
    sides = np.abs(corners - np.roll(corners, 1, axis=1))[..., :2]
    first, last = points[:, :2].min(axis=0), points[:, :2].max(axis=0)
    cell = float(np.median(sides[sides > 1e-6])) if (sides > 1e-6).any() else 0.1
    cell = max(min(cell, 0.1), float(np.sqrt(np.prod(last - first) / _MAX_POINTS)), 1e-3)
    nx, ny = (np.floor((last - first) / cell + 1e-4) + 1).astype(int)
    heights = np.full((max(nx, 2), max(ny, 2)), -np.inf)
    flat = (corners[..., :2] - first) / cell
    low = np.clip(np.ceil(flat.min(axis=1) - 1e-6), 0, None).astype(int)
    high = np.minimum(np.floor(flat.max(axis=1) + 1e-6).astype(int), np.array(heights.shape) - 1)
    span = np.maximum(high - low + 1, 0)
    code = np.where((span > 0).all(axis=1), span[:, 0] * 65536 + span[:, 1], 0)  # triangles of equal size at once
    for size in np.flatnonzero(np.bincount(code)[1:]) + 1:
        chosen = np.flatnonzero(code == size)
        offsets = np.stack(np.meshgrid(*map(np.arange, divmod(size, 65536)), indexing="ij"), axis=-1).reshape(-1, 2)
        per_chunk = max(1, 2_000_000 // len(offsets))
        for start in range(0, len(chosen), per_chunk):
            ids = chosen[start : start + per_chunk]
            _cover(heights, flat[ids], corners[ids, :, 2], low[ids, None] + offsets)
    heights[np.isneginf(heights)] = points[:, 2].min()
    return heights, cell, first


def _cover(heights: np.ndarray, flat: np.ndarray, z: np.ndarray, nodes: np.ndarray) -> None:
    """Raise the heights at nodes [F, K, 2] to the triangles with corners flat [F, 3, 2] and heights z [F, 3]."""
    a, b, c = (flat[:, None, i] for i in range(3))
    area = _cross(b - a, c - a)
    safe = np.where(np.abs(area) < 1e-9, np.inf, area)  # vertical triangles cover nothing
    v, w = _cross(nodes - a, c - a) / safe, _cross(b - a, nodes - a) / safe
    inside = (v >= -1e-6) & (w >= -1e-6) & (v + w <= 1 + 1e-6) & np.isfinite(safe)
    value = z[:, None, 0] + v * (z[:, None, 1] - z[:, None, 0]) + w * (z[:, None, 2] - z[:, None, 0])
    place = nodes[inside]
    np.maximum.at(heights, (place[:, 0], place[:, 1]), value[inside])


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
