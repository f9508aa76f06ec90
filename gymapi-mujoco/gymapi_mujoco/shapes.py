"""Collision shapes of bodies: as geoms of a MuJoCo model, and the mass and inertia that they have at a density."""

# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, Iterable, List, Optional, Tuple

import mujoco
import numpy as np

from gymapi_mujoco.rotations import identity, rotation_matrix

GEOM_TYPES = {
    "box": mujoco.mjtGeom.mjGEOM_BOX,
    "sphere": mujoco.mjtGeom.mjGEOM_SPHERE,
    "capsule": mujoco.mjtGeom.mjGEOM_CAPSULE,
    "cylinder": mujoco.mjtGeom.mjGEOM_CYLINDER,
    "plane": mujoco.mjtGeom.mjGEOM_PLANE,
    "mesh": mujoco.mjtGeom.mjGEOM_MESH,
}


@dataclass
class Shape:
    """A collision shape in the frame of its body."""

    kind: str
    """box, sphere, capsule, cylinder, plane or mesh."""
    size: np.ndarray
    """Half sizes [3], radius, or radius and half length [m]; MuJoCo's sizes. Of a mesh: its scale [3]."""
    pos: np.ndarray = field(default_factory=lambda: np.zeros(3))
    quat: np.ndarray = field(default_factory=identity)
    mesh: str = ""
    """Path of the mesh's file."""
    vertices: Optional[np.ndarray] = None
    """Points [V, 3] of a mesh without a file."""


def inertia_of_shapes(shapes: Iterable[Shape], density: float) -> Tuple[float, np.ndarray, np.ndarray]:
    """Return mass, centre of mass [3] and inertia [3, 3] about it, of shapes of one density [kg/m^3]."""
    shapes = list(shapes)
    if not shapes or density <= 0:
        return 0.0, np.zeros(3), np.zeros((3, 3))
    spec = new_spec()
    body = spec.worldbody.add_body()
    meshes: Dict[tuple, str] = {}
    for shape in shapes:
        add_geom(spec, body, shape, meshes, density=1.0)
    model = spec.compile()
    turn = rotation_matrix(model.body_iquat[1])
    inertia = turn @ np.diag(model.body_inertia[1]) @ turn.T
    return float(model.body_mass[1] * density), model.body_ipos[1].copy(), inertia * density


def new_spec() -> mujoco.MjSpec:
    """Return an empty model in radians that accepts inertias as robots' files have them."""
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    spec.compiler.balanceinertia = True
    spec.compiler.boundmass, spec.compiler.boundinertia = 1e-6, 1e-9
    return spec


def add_geom(
    spec: mujoco.MjSpec, body: mujoco.MjsBody, shape: Shape, meshes: Dict[tuple, str], density: float
) -> mujoco.MjsGeom:
    """Add a shape to a body; equal meshes are loaded once."""
    geom = body.add_geom(type=GEOM_TYPES[shape.kind], pos=shape.pos, quat=shape.quat, density=density)
    if shape.kind != "mesh":
        geom.size = [*shape.size, *[0.0] * (3 - len(shape.size))]
        return geom
    key = (shape.mesh or id(shape.vertices), tuple(shape.size))
    if key not in meshes:
        meshes[key] = f"mesh{len(meshes)}"
        mesh = spec.add_mesh(name=meshes[key], scale=shape.size, inertia=mujoco.mjtMeshInertia.mjMESH_INERTIA_CONVEX)
        _fill_mesh(mesh, shape)
    geom.meshname = meshes[key]
    return geom


def _fill_mesh(mesh: mujoco.MjsMesh, shape: Shape) -> None:
    if shape.vertices is not None:
        mesh.uservert = shape.vertices.astype(np.float32).ravel()
    elif shape.mesh.lower().endswith((".stl", ".obj", ".msh")):
        mesh.file = shape.mesh
    else:
        mesh.uservert = _points_by_trimesh(shape.mesh)


def _points_by_trimesh(path: str) -> List[float]:
    """Return the points of a mesh that MuJoCo cannot read, such as Collada; their convex hull collides."""
    try:
        import trimesh
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f"{path}: MuJoCo reads .stl and .obj; run 'pip install trimesh pycollada'") from None
    scene = trimesh.load(path)
    mesh = scene.to_geometry() if isinstance(scene, trimesh.Scene) else scene
    return np.asarray(mesh.vertices, dtype=np.float32).ravel().tolist()  # type: ignore[union-attr]
