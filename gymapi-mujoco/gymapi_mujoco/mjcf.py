"""Reader of MJCF files: MuJoCo parses them, and the bodies, joints, motors and geoms become an asset."""

# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import re
import warnings
from collections import Counter
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Iterator, List
from xml.etree import ElementTree

import mujoco
import numpy as np

from gymapi_mujoco.asset import Asset, Body, Joint, Motor
from gymapi_mujoco.enums import DofDriveMode
from gymapi_mujoco.rotations import identity, rotation_matrix
from gymapi_mujoco.shapes import GEOM_TYPES, Shape
from gymapi_mujoco.structs import AssetOptions
from gymapi_mujoco.tendons import read_properties, read_tendons

_KINDS = {int(kind): name for name, kind in GEOM_TYPES.items()}
_NOT_READ = ("equality",)
"""Sections of a file whose effect is lost, which a warning says."""
_WITHOUT_EFFECT = (*_NOT_READ, "sensor", "keyframe", "custom", "visual", "statistic")
"""Sections that are left out."""
_UNKNOWN = re.compile(r"unrecognized attribute: '(\w+)'\s+Element '(\w+)'")

_MESHES = (".stl", ".obj", ".msh")
"""Meshes that MuJoCo reads."""
_HELD = 1e-3
"""Play of a joint whose limits are equal, to both sides [rad or m]; MuJoCo needs limits that differ."""

_Element = ElementTree.Element


def read_mjcf(path: Path, options: AssetOptions) -> Asset:
    """Read the bodies, joints, motors and fixed tendons of an MJCF file, in its order, without planes and sensors.

    Attributes that MuJoCo does not know, and sections that are not read, are left out with a warning that names them;
    names that occur twice get a number.
    """
    root = _expanded(path)
    notes = _without_unread(root)
    notes += _with_unique_names(root)
    model = _compiled(path, root, notes)
    if notes:
        warnings.warn(f"{path.name}: {'; '.join(notes)}", stacklevel=4)
    roots = [i for i in range(1, model.nbody) if model.body_parentid[i] == 0]
    if len(roots) != 1:
        raise ValueError(f"{path}: an asset has one body in the world, and this file has {len(roots)}")
    bodies = [_body(model, i, path) for i in range(1, model.nbody)]
    asset = Asset(path.stem, bodies, options)
    asset.motors = list(_motors(model))
    if int(options.default_dof_drive_mode) == DofDriveMode.DOF_MODE_NONE:
        _use_servos(asset)
    for properties, bits in zip(asset.shape_properties, _filters(model)):
        properties.filter = bits
    asset.tendons, asset.tendon_properties = read_tendons(model), read_properties(model, options)
    free = any(int(kind) == mujoco.mjtJoint.mjJNT_FREE for kind in model.jnt_type)
    asset.floating = free and not options.fix_base_link
    bodies[0].pos, bodies[0].quat = np.zeros(3), identity()  # create_actor places the root, and not the file
    return asset


# The file


def _expanded(path: Path) -> _Element:
    """Return the root of a file with the content of those that it includes, and absolute folders of meshes."""
    root = _with_included(path, path.parent)
    compilers = list(root.iter("compiler"))
    for folder in ("meshdir", "texturedir"):
        given = next(
            (c.get(folder) or c.get("assetdir") for c in compilers if c.get(folder) or c.get("assetdir")), None
        )
        if not compilers:
            compilers = [ElementTree.SubElement(root, "compiler")]
        for compiler in compilers:
            compiler.set(folder, str((path.parent / (given or "")).absolute()))
    return root


def _with_included(path: Path, folder: Path) -> _Element:
    """Return the root of a file with the content of those that it includes; their names begin at a folder."""
    root = _parsed(path)
    for parent in list(root.iter()):
        for i, child in reversed(list(enumerate(parent))):
            if child.tag == "include":
                parent[i : i + 1] = list(_with_included(folder / child.get("file", ""), folder))
    return root


def _parsed(path: Path) -> _Element:
    try:
        return ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError) as error:
        raise ValueError(f"{path} is not an MJCF file that can be read: {error}") from None


def _without_unread(root: _Element) -> List[str]:
    """Remove the sections that are not read; return what is lost by it."""
    lost = []
    for name in _WITHOUT_EFFECT:
        for section in root.findall(name):
            lost += [f"<{name}> is not read"] * (name in _NOT_READ and len(section) > 0)
            root.remove(section)
    for section in root.findall("tendon"):
        for tendon in section.findall("spatial"):
            lost.append(f"the spatial tendon '{tendon.get('name', '')}' is not read")
            section.remove(tendon)
    for assets in root.findall("asset"):
        for mesh in assets.findall("mesh"):
            file = mesh.get("file", "")
            if file and Path(file).suffix.lower() not in _MESHES:
                lost += _without_mesh(root, mesh.get("name") or Path(file).stem, file)
                assets.remove(mesh)
    for section in root.findall("actuator"):
        for motor in list(section):
            if motor.get("joint") is None:
                lost.append(f"the actuator '{motor.get('name', '')}' of no joint is not read")
                section.remove(motor)
    return lost


def _without_mesh(root: _Element, name: str, file: str) -> List[str]:
    """Remove the geoms of a mesh that MuJoCo cannot read; bodies without another one get the least mass."""
    for body in root.iter("body"):
        for geom in body.findall("geom"):
            if geom.get("mesh") == name:
                body.remove(geom)
    for compiler in root.iter("compiler"):
        compiler.set("boundmass", "1e-6")
        compiler.set("boundinertia", "1e-9")
    return [f"the mesh {Path(file).name} is not read, which can be {', '.join(_MESHES)}"]


def _with_unique_names(root: _Element) -> List[str]:
    """Number the names of bodies, joints and geoms that occur twice; return what was renamed."""
    notes = []
    for world in root.findall("worldbody"):
        for kinds in (("body",), ("joint", "freejoint"), ("geom",), ("site",)):
            seen: Counter = Counter()
            for element in (element for element in world.iter() if element.tag in kinds):
                name = element.get("name")
                if name is None:
                    continue
                seen[name] += 1
                if seen[name] > 1:
                    element.set("name", f"{name}_{seen[name]}")
                    notes.append(f"the second {element.tag} '{name}' is called '{name}_{seen[name]}'")
    return notes


def _compiled(path: Path, root: _Element, notes: List[str]) -> mujoco.MjModel:
    """Return MuJoCo's model of a file, without the attributes that MuJoCo does not know; they are added to the
    notes."""
    while True:
        try:
            spec = mujoco.MjSpec.from_string(ElementTree.tostring(root, encoding="unicode"))
            for part in (*spec.geoms, *spec.sites):
                part.material = ""  # looks do not matter, and files name materials that they do not have
            for joint in spec.joints:
                if not joint.limited or joint.range[0] != joint.range[1]:
                    continue
                if joint.parent.parent == spec.worldbody:  # Isaac Gym's root is free, or fixed by fix_base_link
                    joint.type, joint.limited = mujoco.mjtJoint.mjJNT_FREE, False
                else:
                    joint.range = joint.range + np.array([-_HELD, _HELD])
            return spec.compile()
        except ValueError as error:
            unknown = _UNKNOWN.search(str(error))
            if unknown is None:
                raise ValueError(f"{path} is not an MJCF file that MuJoCo reads: {error}") from None
            attribute, tag = unknown.groups()
            for element in root.iter(tag):
                element.attrib.pop(attribute, None)
            notes.append(f"<{tag}> has no attribute '{attribute}'")


# Its content


def _motors(model: mujoco.MjModel) -> Iterator[Motor]:
    """Yield the motors of joints, in the order of the file; the effort of one is its gear."""
    for i in range(model.nu):
        affine = model.actuator_biastype[i] == mujoco.mjtBias.mjBIAS_AFFINE  # a muscle's parameters mean something else
        gains = -model.actuator_biasprm[i, 1:3] * model.actuator_gear[i, 0] ** 2 if affine else (0.0, 0.0)
        yield Motor(
            model.joint(int(model.actuator_trnid[i, 0])).name,
            effort=float(model.actuator_gear[i, 0]),
            control=tuple(model.actuator_ctrlrange[i].tolist()) if model.actuator_ctrllimited[i] else None,
            force=tuple(model.actuator_forcerange[i].tolist()) if model.actuator_forcelimited[i] else None,
            stiffness=max(0.0, float(gains[0])),
            damping=max(0.0, float(gains[1])),
        )


def _use_servos(asset: Asset) -> None:
    """Make position and velocity actuators of the file the drives of their DoFs."""
    for motor in asset.motors:
        if motor.stiffness > 0 or motor.damping > 0:
            mode = DofDriveMode.DOF_MODE_POS if motor.stiffness > 0 else DofDriveMode.DOF_MODE_VEL
            row = asset.dof_properties[asset.dof_names.index(motor.joint)]
            row["driveMode"] = int(mode)
            row["stiffness"] += motor.stiffness
            row["damping"] += motor.damping


def _body(model: mujoco.MjModel, index: int, path: Path) -> Body:
    body = Body(model.body(index).name, int(model.body_parentid[index]) - 1)
    body.pos, body.quat = model.body_pos[index].copy(), model.body_quat[index].copy()
    turn = rotation_matrix(model.body_iquat[index])
    body.mass, body.com = float(model.body_mass[index]), model.body_ipos[index].copy()
    body.inertia = turn @ np.diag(model.body_inertia[index]) @ turn.T
    for i in range(model.body_jntadr[index], model.body_jntadr[index] + model.body_jntnum[index]):
        kind = int(model.jnt_type[i])
        if kind == mujoco.mjtJoint.mjJNT_BALL:
            raise NotImplementedError(f"{path}: joint '{model.joint(i).name}' is a ball joint; use three hinges")
        if kind != mujoco.mjtJoint.mjJNT_FREE:
            body.joints.append(_joint(model, i))
    if not body.joints and body.parent >= 0:
        body.fixed_joint = f"{body.name}_fixed"
    body.shapes = _shapes(model, index, path)
    return body


def _joint(model: mujoco.MjModel, index: int) -> Joint:
    joint, dof = model.joint(index), int(model.jnt_dofadr[index])
    efforts = [
        float(np.abs(model.actuator_forcerange[i]).max())
        for i in range(model.nu)
        if model.actuator_trnid[i, 0] == index and model.actuator_forcelimited[i]
    ]
    return Joint(
        joint.name,
        int(model.jnt_type[index]) == mujoco.mjtJoint.mjJNT_SLIDE,
        model.jnt_axis[index].copy(),
        model.jnt_pos[index].copy(),
        *model.jnt_range[index].tolist(),
        limited=bool(model.jnt_limited[index]),
        effort=sum(efforts),
        stiffness=float(model.jnt_stiffness[index]),
        damping=float(model.dof_damping[dof]),
        friction=0.0,
        armature=float(model.dof_armature[dof]),
    )


def _colliding(model: mujoco.MjModel, body: int) -> List[int]:
    """Return the geoms of a body that collide."""
    paired = {*model.pair_geom1.tolist(), *model.pair_geom2.tolist()}
    geoms = range(model.body_geomadr[body], model.body_geomadr[body] + model.body_geomnum[body])
    return [i for i in geoms if model.geom_contype[i] or model.geom_conaffinity[i] or i in paired]


def _filters(model: mujoco.MjModel) -> List[int]:
    """Return the collision filters of the shapes: two have a bit in common if the file's contype and conaffinity keep
    them apart. An actor has them with the filter -1."""
    geoms = [i for body in range(1, model.nbody) for i in _colliding(model, body)]
    kinds = [(int(model.geom_contype[i]), int(model.geom_conaffinity[i])) for i in geoms]
    filters = dict.fromkeys(kinds, 0)
    apart = [
        (one, other)
        for one, other in combinations_with_replacement(filters, 2)
        if not (one[0] & other[1] or other[0] & one[1])
    ]
    for i, pair in enumerate(apart):
        for kind in set(pair):
            filters[kind] |= 1 << i
    return [filters[kind] for kind in kinds]


def _shapes(model: mujoco.MjModel, body: int, path: Path) -> List[Shape]:
    """Return the geoms of a body that collide."""
    shapes = []
    for i in _colliding(model, body):
        kind, size = _KINDS.get(int(model.geom_type[i])), model.geom_size[i].copy()
        if kind is None:
            raise NotImplementedError(
                f"{path}: a geom of body '{model.body(body).name}' is not {', '.join(GEOM_TYPES)}"
            )
        shape = Shape(kind, size, model.geom_pos[i].copy(), model.geom_quat[i].copy())
        if kind == "mesh":
            mesh = int(model.geom_dataid[i])
            start = model.mesh_vertadr[mesh]
            shape.vertices, shape.size = model.mesh_vert[start : start + model.mesh_vertnum[mesh]].copy(), np.ones(3)
            # MuJoCo has moved the vertices to the mesh's principal axes, and the geom's pose with them.
        shapes.append(shape)
    return shapes
