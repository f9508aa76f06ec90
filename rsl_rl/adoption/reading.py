"""Read a third-party robot model, URDF or MJCF, with MuJoCo's own compiler.

What does not matter for walking is left out: sensors, tendons, textures, Gazebo elements. Meshes that are missing or
unreadable are left out too; ``notes`` names everything that is. A model with more parts than a robot has, or with
numbers that are not finite, is refused.
"""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
from __future__ import annotations

import math
import os
import warnings
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple
from urllib.parse import unquote

import mujoco
import numpy as np

from rsl_rl.utils.text import is_utf8, listed

_URDF_ELEMENTS = ("link", "joint", "material", "mujoco")
"""Elements of a URDF file that are read."""

_NUMBERS_IN_FILE = {
    "xyz", "rpy", "size", "radius", "length", "scale", "value", "ixx", "iyy", "izz", "ixy", "ixz", "iyz", "lower",
    "upper", "effort", "velocity", "damping", "friction", "pos", "quat", "axis", "axisangle", "euler", "xyaxes",
    "zaxis", "fromto", "mass", "density", "diaginertia", "fullinertia", "armature", "stiffness", "ref", "range",
    "actuatorfrcrange", "gear", "kp", "kv", "forcerange", "ctrlrange", "qpos",
}  # fmt: skip
"""Attributes of URDF and MJCF files that hold numbers."""

_TINY_MASS, _TINY_INERTIA = 1e-5, 1e-9
"""Of links without mass [kg], [kg m^2]: a link between two joints needs some."""

_READABLE = (".stl", ".obj", ".msh")
"""Formats of meshes that MuJoCo reads."""

_MAX_BYTES, _MAX_MESH_BYTES = 10_000_000, 100_000_000
"""Largest size of a model's file, and of a mesh; a larger mesh is left out."""

_MAX_DEPTH = 200
"""Largest depth of nested elements."""

MAX_PARTS = {"elements": 100_000, "links": 1000, "joints": 500, "shapes": 5000}
"""Largest number of parts of a model, with all copies that it asks for."""

_KINDS = {
    "link": "links", "body": "links", "joint": "joints", "freejoint": "joints",
    "visual": "shapes", "collision": "shapes", "geom": "shapes",
}  # fmt: skip
"""What the elements of a model are."""

_COPIED = ("replicate", "composite", "flexcomp")
"""Elements of an MJCF with an attribute ``count``: how many copies there are, in each direction."""

_MAX_KEYFRAMES = 10
"""Keyframes of the file that are looked at."""

_LARGEST = 1e4
"""Largest length [m], mass [kg] and so on of a part."""

_NUMBERS = {
    "geom_pos": "the origin of a shape",
    "geom_quat": "the orientation of a shape",
    "geom_size": "the size of a shape",
    "body_pos": "the origin",
    "body_quat": "the orientation",
    "body_ipos": "the centre of mass",
    "body_mass": "the mass",
    "body_inertia": "the inertia",
    "jnt_pos": "the origin of a joint",
    "jnt_axis": "the axis of a joint",
    "jnt_range": "the range of a joint",
    "dof_armature": "the armature of a joint",
    "dof_damping": "the damping of a joint",
}
"""Arrays of a MuJoCo model that must be finite."""


class SourceModel(NamedTuple):
    """A third-party model, compiled, with one free joint."""

    path: Path
    model: Any  # mujoco.MjModel
    base: int  # body with the free joint
    poses: Tuple[np.ndarray, ...]  # [nq] zero angles, middles of ranges, the file's initial pose and keyframes
    notes: Tuple[str, ...]  # what was left out or replaced


def read_model(path: Path) -> SourceModel:
    """Read and compile a file; a file that holds no robot is a ValueError."""
    if not path.is_file():
        raise ValueError(f"{path} is not a file; give a URDF or an MJCF file")
    if not is_utf8(path.resolve()):
        raise ValueError(f"{path.resolve()} has a name that is not UTF-8; rename the file or its folder")
    root = _parse(path)
    _require_sizes(path, _count_parts(root, path, {path.resolve()}, (path.resolve(),)))
    notes: List[str] = []
    try:
        if root.tag == "robot":
            spec = _read_urdf(path, root, notes)
        elif root.tag == "mujoco":
            _require_finite(path, root)
            spec = mujoco.MjSpec.from_file(str(path))
            _remove_unreadable_meshes(path, spec, notes)
        else:
            raise ValueError(f"{path} has the root element <{root.tag}>; a URDF has <robot> and an MJCF <mujoco>")
        base = _prepare(path, spec, notes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what matters of the numbers is looked at below
            model = spec.compile()
        parts = {"links": model.nbody - 1, "joints": model.njnt, "shapes": model.ngeom}
        _require_sizes(path, parts)
        _require_plausible(path, model, model.body(base).id)
    except ValueError as error:
        if str(error).startswith(str(path)):
            raise
        raise ValueError(f"{path} cannot be compiled: {error}") from error
    except mujoco.FatalError as error:
        raise ValueError(f"{path} cannot be compiled: {error}") from error
    except RuntimeError as error:  # of an allocation that fails
        raise ValueError(
            f"{path} cannot be compiled ({error}); it may need more memory than it may have: give a model with fewer "
            "parts, or smaller meshes and height fields"
        ) from error
    return SourceModel(path, model, model.body(base).id, _poses(model), tuple(notes))


# Limits


def _parse(path: Path) -> ElementTree.Element:
    """Return the root element of a file within the limits."""
    size = path.stat().st_size
    if size > _MAX_BYTES:
        raise ValueError(f"{path} has {size / 1e6:.0f} MB; a model without its meshes may have {_MAX_BYTES / 1e6:g} MB")
    depth, root = 0, None
    try:
        with path.open("rb") as file:
            for event, element in ElementTree.iterparse(file, events=("start", "end")):
                root = element if root is None else root
                depth += 1 if event == "start" else -1
                if depth > _MAX_DEPTH:
                    break
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        raise ValueError(f"{path} is not readable as XML ({error}); give a URDF or an MJCF file") from error
    if depth > _MAX_DEPTH:
        raise ValueError(f"{path} has elements nested more than {_MAX_DEPTH} deep, which is the limit")
    assert root is not None
    return root


def _count_parts(
    element: ElementTree.Element, path: Path, files: Set[Path], within: Tuple[Path, ...]
) -> Dict[str, int]:
    """Return the numbers of parts of an element, with copies and with included files that are not in ``files`` yet.

    A file that would include itself is a ValueError, as is a pipe or a device; ``within`` are the files around it.
    """
    counts: Dict[str, int] = Counter(elements=1)
    if element.tag in _KINDS:
        counts[_KINDS[element.tag]] += 1
    name = element.get("file", "") if element.tag in ("include", "model") else ""
    included = Path(os.path.realpath(path.parent / name)) if name else None
    if included is not None and included.exists():
        if included in within or not included.is_file():
            raise ValueError(f"{path} includes {name}, which {'has it too' if included in within else 'is no file'}")
        if included not in files:
            files.add(included)
            counts.update(_count_parts(_parse(included), path, files, (*within, included)))
    for child in element:
        counts.update(_count_parts(child, path, files, within))
    if element.tag in _COPIED:
        words = [word for word in element.get("count", "").split() if word.isdecimal()]
        made = counts if element.tag == "replicate" else Counter(links=1, joints=1, shapes=1)
        for kind in made:
            counts[kind] += made[kind] * max(math.prod(map(int, words)) - 1, 0)
    return counts


def _require_sizes(path: Path, parts: Dict[str, int]) -> None:
    for kind, limit in MAX_PARTS.items():
        if parts.get(kind, 0) > limit:
            raise ValueError(f"{path} has {parts[kind]:,} {kind}, with all copies; a model may have {limit:,}")


def _require_finite(path: Path, root: ElementTree.Element) -> None:
    """Refuse numbers of a file that are not finite; a limit may be infinite. MuJoCo takes some for missing ones."""
    named = root
    for element in root.iter():
        named = element if "name" in element.attrib else named
        for name in _NUMBERS_IN_FILE & set(element.attrib):
            values = [_number(word) for word in element.get(name, "").split()]
            may_be_infinite = element.tag == "limit" or name.endswith("range")
            if any(math.isnan(value) or (math.isinf(value) and not may_be_infinite) for value in values):
                what = f"{named.tag} '{named.get('name', '')}'"
                raise ValueError(f'{path}: {what} has {name}="{element.get(name)}"; give finite numbers')


def _number(word: str) -> float:
    """Return a number, or zero for a word that MuJoCo does not take as one either."""
    try:
        return float(word)
    except ValueError:
        return 0.0


def _require_plausible(path: Path, model: Any, base: int) -> None:
    """Refuse numbers that are not finite or that no robot has, and names that cannot be printed."""
    for field, what in _NUMBERS.items():
        kind = field.partition("_")[0]
        bodies = np.arange(model.nbody) if kind == "body" else getattr(model, f"{kind}_bodyid")
        for body, values in zip(bodies, getattr(model, field)):
            fits = ~np.isnan(values) if field == "jnt_range" else np.abs(values) < _LARGEST  # without limits: infinite
            if model.body_rootid[body] == base and not np.all(fits):
                link = model.body(body).name
                raise ValueError(
                    f"{path}: {what} of the link '{link}' is not finite, or above {_LARGEST:g} in SI units"
                )
    for joint in np.flatnonzero(np.linalg.norm(model.jnt_axis, axis=1) < 0.5):
        raise ValueError(
            f"{path}: the axis of the joint '{model.joint(joint).name}' has no direction; give a unit vector"
        )
    named = [model.body(i).name for i in range(1, model.nbody)] + [model.joint(i).name for i in range(model.njnt)]
    wrong_name = next((name for name in named if not name.isprintable()), None)
    if wrong_name is not None:
        raise ValueError(f"{path}: the name {wrong_name!r} has characters that cannot be printed; write another one")


# URDF


def _read_urdf(path: Path, root: ElementTree.Element, notes: List[str]) -> Any:
    if any("xacro" in element.tag for element in root.iter()):
        raise ValueError(f"{path} has xacro elements; expand it first: xacro {path.name} > robot.urdf")
    if root.find("link") is None:
        raise ValueError(f"{path} has no <link>; a robot has links and joints")
    others = [child for child in root if child.tag not in _URDF_ELEMENTS]
    for child in others:
        root.remove(child)
    if others:
        ignored = Counter(child.tag for child in others)
        notes.append("ignored elements: " + ", ".join(f"{tag} ({count})" for tag, count in ignored.items()))
    known = ("revolute", "continuous", "prismatic", "fixed", "floating")
    wrong = next((joint for joint in root.findall("joint") if joint.get("type", "") not in known), None)
    if wrong is not None:
        name, kind = wrong.get("name", ""), wrong.get("type", "")
        raise ValueError(f"{path}: joint '{name}' has the type '{kind}'; known: {', '.join(known)}")
    _require_finite(path, root)
    _cut_at_floating_joints(root, notes)
    missing: List[str] = []
    for link in root.iter("link"):
        for part in [part for part in link if part.tag in ("visual", "collision")]:
            mesh = part.find("geometry/mesh")
            if mesh is None:
                if _is_empty(part):
                    link.remove(part)
                continue
            found = find_mesh(path, mesh.get("filename", ""))
            if found is None:
                missing.append(mesh.get("filename", ""))
                link.remove(part)
            else:
                mesh.set("filename", str(found))
    _note_missing(missing, notes)
    for own in root.findall("mujoco"):
        root.remove(own)
    flags = {"discardvisual": "false", "fusestatic": "false", "strippath": "false", "balanceinertia": "true"}
    ElementTree.SubElement(ElementTree.SubElement(root, "mujoco"), "compiler", flags)
    spec = mujoco.MjSpec.from_string(ElementTree.tostring(root, encoding="unicode"))
    if root.find("link/inertial") is not None:
        for geom in spec.geoms:  # MuJoCo gives links without <inertial> the mass of their shapes, filled with water
            geom.mass = 0.0
    else:
        notes.append("no link has an <inertial>; masses are those of the shapes, filled with water")
    return spec


def _cut_at_floating_joints(root: ElementTree.Element, notes: List[str]) -> None:
    """Leave only the links of the robot, whose base moves freely: the part with most joints."""
    joints = root.findall("joint")
    floating = [joint for joint in joints if joint.get("type") == "floating"]
    if not floating:
        return
    parents = {_end(joint, "child"): _end(joint, "parent") for joint in joints if joint not in floating}
    part_of: Dict[str, str] = {}  # first link of the part that a link belongs to
    for link in (link.get("name", "") for link in root.findall("link")):
        first, seen = link, {""}
        while first in parents and first not in seen:
            seen.add(first)
            first = parents[first]
        part_of[link] = first
    moving = Counter(part_of.get(_end(joint, "child")) for joint in joints if joint.get("type") != "fixed")
    base = max(part_of.values(), key=lambda first: moving[first])
    others = [link for link in root.findall("link") if part_of[link.get("name", "")] != base]
    outside = [joint for joint in joints if joint in floating or part_of.get(_end(joint, "child")) != base]
    for element in (*others, *outside):
        root.remove(element)
    notes.append(f"the base is the link '{base}', which a floating joint lets move")


def _end(joint: ElementTree.Element, kind: str) -> str:
    """Return the name of the parent or child link of a joint."""
    end = joint.find(kind)
    return "" if end is None else end.get("link", "")


def _is_empty(part: ElementTree.Element) -> bool:
    """Return whether a shape is missing or has the size zero, which marks a frame in some files."""
    shape = part.find("geometry/*")
    if shape is None:
        return True
    sizes = " ".join(shape.get(name, "") for name in ("size", "radius", "length")).split()
    return not sizes or any(float(size) <= 0 for size in sizes)


# MJCF


def _remove_unreadable_meshes(path: Path, spec: Any, notes: List[str]) -> None:
    folder = Path(spec.modelfiledir or path.parent) / (spec.meshdir or "")
    missing = []
    for mesh in list(spec.meshes):
        file = folder / mesh.file if mesh.file else None
        if file is None or is_readable(file):  # without a file: vertices in the model
            continue
        missing.append(mesh.file)
        name = mesh.name or Path(mesh.file).stem
        for geom in [geom for geom in spec.geoms if geom.meshname == name]:
            spec.delete(geom)
        spec.delete(mesh)
    _note_missing(missing, notes)


# Both


def _note_missing(missing: List[str], notes: List[str]) -> None:
    names = sorted({Path(name).name for name in missing})
    if names:
        notes.append(f"meshes missing or unreadable, shapes come from other shapes or the inertia: {listed(names)}")


def _prepare(path: Path, spec: Any, notes: List[str]) -> str:
    """Leave only what the analysis needs, with a free joint at the root; return the name of the base."""
    loops = (mujoco.mjtEq.mjEQ_CONNECT, mujoco.mjtEq.mjEQ_WELD)
    if any(equality.type in loops for equality in spec.equalities):
        raise ValueError(f"{path} has closed kinematic chains (<connect> or <weld>); only trees of links are supported")
    coupled = [equality.name1 for equality in spec.equalities if equality.type == mujoco.mjtEq.mjEQ_JOINT]
    if coupled:
        notes.append(f"couplings between joints (mimic) are left out; each moves by itself: {', '.join(coupled)}")
    for things in (spec.sensors, spec.tendons, spec.excludes, spec.pairs, spec.skins, spec.equalities):
        for thing in list(things):
            spec.delete(thing)
    colours = {material.name: np.array(material.rgba) for material in spec.materials}
    for geom in spec.geoms:
        if geom.material in colours:
            geom.rgba = colours[geom.material]
        geom.material = ""
    for thing in (*list(spec.materials), *list(spec.textures)):
        spec.delete(thing)
    spec.compiler.balanceinertia, spec.compiler.fusestatic, spec.compiler.discardvisual = True, False, False
    spec.compiler.boundmass, spec.compiler.boundinertia = _TINY_MASS, _TINY_INERTIA
    for i, body in enumerate(spec.bodies[1:], start=1):
        body.name = body.name or f"link_{i}"
        if body.mass < 0:
            raise ValueError(f"{path}: the link '{body.name}' has a mass of {body.mass:g} kg; give a positive one")
        _drop_impossible_inertia(body)
    for i, joint in enumerate(spec.joints):
        joint.name = joint.name or f"joint_{i}"
    roots = list(spec.worldbody.bodies)
    if not roots:
        raise ValueError(f"{path} has no bodies; a robot has links and joints")
    joints = [len(root.find_all("joint")) for root in roots]
    root = roots[int(np.argmax(joints))]
    others = [other.name for other in roots if other is not root]
    if others:
        notes.append(f"bodies beside the robot, left out: {listed(others)}")
    for joint in list(root.joints):
        if joint.type != mujoco.mjtJoint.mjJNT_FREE:
            notes.append(f"joint '{joint.name}' of the root link, replaced by a free joint")
            spec.delete(joint)
    free = [joint for joint in root.find_all("joint") if joint.type == mujoco.mjtJoint.mjJNT_FREE]
    if free:
        return free[0].parent.name
    root.add_freejoint()
    for key in list(spec.keys):  # without the free joint
        spec.delete(key)
    return root.name


def _drop_impossible_inertia(body: Any) -> None:
    """Make an inertia that no rigid body has tiny: MuJoCo refuses such models, and ``mend_inertias`` replaces it."""
    if not body.explicitinertial:
        return
    xx, yy, zz, xy, xz, yz = body.fullinertia
    if np.isnan(xx):
        return
    tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    if np.linalg.eigvalsh(tensor).min() > 1e-12:
        return
    body.fullinertia = [np.nan] + [0.0] * 5
    body.mass, body.inertia = max(float(body.mass), _TINY_MASS), [_TINY_INERTIA] * 3


def _poses(model: Any) -> Tuple[np.ndarray, ...]:
    poses = [np.array(model.qpos0) for _ in range(3)] + list(np.array(model.key_qpos[:_MAX_KEYFRAMES]))
    for joint in range(model.njnt):
        address = model.jnt_qposadr[joint]
        if model.jnt_type[joint] in (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE):
            poses[0][address] = 0.0
            poses[1][address] = model.jnt_range[joint].mean()
            for pose in poses:
                if model.jnt_limited[joint]:
                    pose[address] = np.clip(pose[address], *model.jnt_range[joint])
    return tuple(poses)


def find_mesh(model: Path, name: str) -> Optional[Path]:
    """Return a readable file for a name in a URDF file, or None.

    A name is a path relative to the model's folder, an absolute path, or a URI with package:// or file://. A mesh of
    another format is replaced by one of the same name beside it that MuJoCo reads, if there is one.
    """
    for path in filter(lambda path: path.name, _candidates(model.resolve(), name)):
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
        yield Path("/", unquote(rest.partition("/")[2]))  # without the host
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
        if file.suffix.lower() not in _READABLE or not file.is_file() or not is_utf8(file):
            return False
        if file.stat().st_size > _MAX_MESH_BYTES:
            return False
        spec = mujoco.MjSpec()
        mesh = spec.add_mesh()
        mesh.name, mesh.file = "mesh", str(file)
        geom = spec.worldbody.add_geom()
        geom.type, geom.meshname = mujoco.mjtGeom.mjGEOM_MESH, "mesh"
        spec.compile()
    except (ValueError, OSError, RuntimeError, mujoco.FatalError):
        return False
    return True
