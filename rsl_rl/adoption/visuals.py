"""What an adopted robot looks like: the meshes of its source, for pictures and viewers. The simulation has no meshes.

The prepared robot ``NAME.xml`` has primitive shapes. ``NAME_visual.xml`` beside it is the same robot with the meshes,
and with the primitive shapes hidden; :func:`rsl_rl.utils.mujoco_model.file_to_draw` finds it.
"""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Tuple
from xml.etree import ElementTree
from xml.etree.ElementTree import SubElement

import numpy as np

from rsl_rl.adoption.geometry import MESHES, geoms_of, rotation
from rsl_rl.adoption.links import link_frames, link_names, locked_pose
from rsl_rl.adoption.mjcf import indented
from rsl_rl.adoption.reading import SourceModel
from rsl_rl.adoption.structure import Skeleton, find_parts, posed
from rsl_rl.utils.mujoco_model import visual_file

FOLDER = "meshes"
"""Folder of the mesh files, beside the model."""

_HIDDEN, _SHOWN = "3", "2"
"""Groups of geoms: MuJoCo's viewers, and ours, show those up to 2."""

_MAX_GROUP = 2

_DETAIL = 250
"""Vertices that are closer than the robot's size divided by this number become one."""


class Mesh(NamedTuple):
    """Triangles of one colour on a link."""

    link: str
    triangles: np.ndarray  # [n, 3, 3] corners in the frame of the link [m]
    rgba: Tuple[float, ...]


def find_meshes(source: SourceModel, skeleton: Skeleton) -> List[Mesh]:
    """Return the meshes that are seen of a robot, those of one link and colour as one; empty if there are none."""
    model, data = source.model, posed(source.model, locked_pose(source, skeleton))
    parts = find_parts(model, source.base, skeleton.locked)
    names, frames = link_names(source, skeleton, parts), link_frames(source, skeleton, parts, data)
    corners: Dict[Tuple[str, Tuple[float, ...]], List[np.ndarray]] = {}
    for link, bodies in parts.items():
        origin, mat = frames[link]
        for body in bodies:
            turn, shift = mat.T @ data.xmat[body].reshape(3, 3), mat.T @ (data.xpos[body] - origin)
            for geom in _seen(model, body):
                rgba = tuple(round(float(x), 3) for x in model.geom_rgba[geom])
                triangles = _triangles(model, geom) @ turn.T + shift
                corners.setdefault((names[link], rgba), []).append(triangles)
    size = float(np.linalg.norm(np.ptp(data.xpos[[body for bodies in parts.values() for body in bodies]], axis=0)))
    merged = ((key, _merged(np.concatenate(found), size / _DETAIL)) for key, found in corners.items())
    return [Mesh(link, triangles, rgba) for (link, rgba), triangles in merged if len(triangles)]


def _seen(model: Any, body: int) -> List[int]:
    """Return the meshes of a body that are seen: those that do not collide, or else those that do."""
    colliding = geoms_of(model, body)
    first, count = int(model.body_geomadr[body]), int(model.body_geomnum[body])
    others = [geom for geom in range(first, first + count) if geom not in colliding]
    shown = [geom for geom in others if model.geom_group[geom] <= _MAX_GROUP] or colliding
    return [geom for geom in shown if model.geom_type[geom] in MESHES and model.geom_rgba[geom, 3] > 0]


def _triangles(model: Any, geom: int) -> np.ndarray:
    """Return the triangles [n, 3, 3] of a mesh in the frame of its body."""
    mesh = model.geom_dataid[geom]
    vertex, face = model.mesh_vertadr[mesh], model.mesh_faceadr[mesh]
    vertices = model.mesh_vert[vertex : vertex + model.mesh_vertnum[mesh]].astype(float)
    corners = vertices[model.mesh_face[face : face + model.mesh_facenum[mesh]]]
    return corners @ rotation(model.geom_quat[geom]).T + model.geom_pos[geom]


def _merged(triangles: np.ndarray, cell: float) -> np.ndarray:
    """Return triangles without those that vanish when all corners within a cube of this width [m] become their mean."""
    corners = triangles.reshape(-1, 3)
    _, owner, count = np.unique(np.round(corners / cell), axis=0, return_inverse=True, return_counts=True)
    owner = owner.reshape(-1)  # of two dimensions in NumPy 2.0
    mean = np.stack([np.bincount(owner, column) for column in corners.T], axis=1) / count[:, None]
    faces = owner.reshape(-1, 3)
    whole = (faces[:, 0] != faces[:, 1]) & (faces[:, 1] != faces[:, 2]) & (faces[:, 2] != faces[:, 0])
    _, first = np.unique(np.sort(faces[whole], axis=1), axis=0, return_index=True)
    return mean[faces[whole][np.sort(first)]]


def write_visuals(mjcf: str, meshes: List[Mesh], model_path: Path) -> None:
    """Write the robot of an MJCF text with meshes in place of its shapes, and the mesh files, beside the model."""
    root = ElementTree.fromstring(mjcf)
    bodies = {body.get("name"): body for body in root.iter("body")}
    for link in {mesh.link for mesh in meshes}:  # the others are drawn with their shapes
        for geom in bodies[link].findall("geom"):
            geom.set("group", _HIDDEN)
    compiler, asset = root.find("compiler"), root.find("asset")
    assert compiler is not None and asset is not None  # in every file of write_mjcf
    compiler.set("meshdir", FOLDER)
    folder = model_path.with_name(FOLDER)
    folder.mkdir()
    for number, mesh in enumerate(meshes):
        name = f"part{number:03d}"
        (folder / f"{name}.stl").write_bytes(_stl(mesh.triangles))
        SubElement(asset, "mesh", name=name, file=f"{name}.stl", inertia="shell")
        rgba = " ".join(f"{x:g}" for x in mesh.rgba)
        SubElement(bodies[mesh.link], "geom", type="mesh", mesh=name, rgba=rgba, group=_SHOWN)
    visual_file(model_path).write_text(f"{indented(root)}\n", encoding="utf-8")


def _stl(triangles: np.ndarray) -> bytes:
    """Return triangles [n, 3, 3] as a binary STL file; normals are left to the reader."""
    rows = np.zeros(len(triangles), dtype=[("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("unused", "<u2")])
    rows["corners"] = triangles
    return bytes(80) + len(triangles).to_bytes(4, "little") + rows.tobytes()
