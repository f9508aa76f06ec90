"""Reader of MJCF files: MuJoCo parses them, and the bodies, joints and geoms become an asset."""

# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

from pathlib import Path
from typing import List

import mujoco
import numpy as np

from gymapi_mujoco.asset import Asset, Body, Joint
from gymapi_mujoco.rotations import identity, rotation_matrix
from gymapi_mujoco.shapes import GEOM_TYPES, Shape
from gymapi_mujoco.structs import AssetOptions

_KINDS = {int(kind): name for name, kind in GEOM_TYPES.items()}


def read_mjcf(path: Path, options: AssetOptions) -> Asset:
    """Read the bodies of an MJCF file, in its order; a plane of the file, its actuators and sensors are left out."""
    try:
        spec = mujoco.MjSpec.from_file(str(path))
        for part in (*spec.geoms, *spec.sites):
            part.material = ""  # looks do not matter, and files name materials that they do not have
        model = spec.compile()
    except ValueError as error:
        raise ValueError(f"{path} is not an MJCF file that MuJoCo reads: {error}") from None
    roots = [i for i in range(1, model.nbody) if model.body_parentid[i] == 0]
    if len(roots) != 1:
        raise ValueError(f"{path}: an asset has one body in the world, and this file has {len(roots)}")
    bodies = [_body(model, i, path) for i in range(1, model.nbody)]
    asset = Asset(path.stem, bodies, options)
    free = any(int(kind) == mujoco.mjtJoint.mjJNT_FREE for kind in model.jnt_type)
    asset.floating = free and not options.fix_base_link
    if asset.floating:  # where the file puts the root does not count: create_actor does
        bodies[0].pos, bodies[0].quat = np.zeros(3), identity()
    return asset


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
        damping=float(model.dof_damping[dof]),
        friction=0.0,
        armature=float(model.dof_armature[dof]),
    )


def _shapes(model: mujoco.MjModel, body: int, path: Path) -> List[Shape]:
    """Return the geoms of a body that collide."""
    shapes = []
    paired = {*model.pair_geom1.tolist(), *model.pair_geom2.tolist()}
    for i in range(model.body_geomadr[body], model.body_geomadr[body] + model.body_geomnum[body]):
        if not (model.geom_contype[i] or model.geom_conaffinity[i] or i in paired):
            continue
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
