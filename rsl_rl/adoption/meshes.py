"""Find the mesh files that a third-party model names, and test whether MuJoCo reads them."""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
from __future__ import annotations

import os
from pathlib import Path
from typing import Iterator, Optional
from urllib.parse import unquote, urlparse

import mujoco

_READABLE = (".stl", ".obj", ".msh")


def find_mesh(model: Path, name: str) -> Optional[Path]:
    """Return a readable file for a name in a URDF file, or None.

    A name is a path relative to the model's folder, an absolute path, or a URI with package:// or file://. A mesh of
    another format is replaced by one of the same name beside it that MuJoCo reads, if there is one.
    """
    for path in _candidates(model.resolve(), name):
        for file in (path, *(path.with_suffix(suffix) for suffix in _READABLE)):
            if is_readable(file):
                return file
    return None


def _candidates(model: Path, name: str) -> Iterator[Path]:
    scheme, _, rest = name.partition("://")
    if not rest:
        yield model.parent / name
        return
    if scheme not in ("package", "model"):
        yield Path(unquote(urlparse(name).path))
        return
    package, _, inside = unquote(rest).partition("/")
    for folder in model.parents:
        if folder.name == package or _package_name(folder) == package:
            yield folder / inside
        yield folder / package / inside
    for folder in filter(None, os.environ.get("ROS_PACKAGE_PATH", "").split(os.pathsep)):
        root = Path(folder)
        if root.name == package:
            yield root / inside
        yield root / package / inside
    for folder in model.parents:  # of a package whose folder has another name
        yield folder / inside


def _package_name(folder: Path) -> str:
    """Return the name in the folder's package.xml, or nothing."""
    manifest = folder / "package.xml"
    if not manifest.is_file():
        return ""
    _, _, rest = manifest.read_text(errors="replace").partition("<name>")
    return rest.partition("</name>")[0].strip()


def is_readable(file: Path) -> bool:
    """Return whether MuJoCo reads a mesh file."""
    try:
        if file.suffix.lower() not in _READABLE or not file.is_file():
            return False
        spec = mujoco.MjSpec()
        mesh = spec.add_mesh()
        mesh.name, mesh.file = "mesh", str(file)
        geom = spec.worldbody.add_geom()
        geom.type, geom.meshname = mujoco.mjtGeom.mjGEOM_MESH, "mesh"
        spec.compile()
    except (ValueError, OSError, mujoco.FatalError):
        return False
    return True
