"""Attractors: what pulls a point of a body, or its pose, to a target."""

# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import mujoco
import numpy as np
import torch

from gymapi_mujoco.contacts import spring
from gymapi_mujoco.enums import CONSTANTS
from gymapi_mujoco.rotations import multiply
from gymapi_mujoco.scene import Scene
from gymapi_mujoco.structs import AttractorProperties, as_array, to_wxyz
from gymapi_mujoco.worlds import Worlds

_POSITION, _POSE, _NONE = (CONSTANTS[f"AXIS_{name}"] for name in ("TRANSLATION", "ALL", "NONE"))


def check(props: AttractorProperties) -> None:
    """Refuse what is not provided."""
    if props.axes not in (_POSITION, _POSE, _NONE):
        raise NotImplementedError(
            f"an attractor with the axes {props.axes}; it can have AXIS_TRANSLATION, AXIS_ALL or AXIS_NONE"
        )
    if not (0 <= props.stiffness < np.inf and 0 <= props.damping < np.inf):
        raise ValueError(
            f"an attractor has stiffness {props.stiffness:g}, damping {props.damping:g}; give zero or more"
        )


def add_attractors(spec: mujoco.MjSpec, scene: Scene) -> None:
    """Add an equality constraint for each attractor of environment 0; ``Attractors`` writes what it holds."""
    bodies = [f"{actor.index}/{body.name}" for actor in scene.actors[0] for body in actor.asset.bodies]
    for i, props in enumerate(scene.attractors[0]):
        kind = mujoco.mjtEq.mjEQ_WELD if props.axes == _POSE else mujoco.mjtEq.mjEQ_CONNECT
        spec.add_equality(
            name=f"attractor{i}", type=kind, objtype=mujoco.mjtObj.mjOBJ_BODY, name1=bodies[props.rigid_handle],
            name2="world",
        )  # fmt: skip


class Attractors:
    """The attractors of all environments."""

    def __init__(self, scene: Scene, worlds: Worlds):
        self._scene, self._worlds = scene, worlds
        if scene.attractors[0]:
            self._data, self._solref = worlds.field("eq_data"), worlds.field("eq_solref")
            self._solimp = worlds.field("eq_solimp")
            self._active = worlds.state("eq_active")
            for env in range(len(scene.actors)):
                for index in range(len(scene.attractors[0])):
                    self.write(env, index)

    def write(self, env: int, index: int) -> None:
        """Take over the properties of an attractor."""
        props, device = self._scene.attractors[env][index], self._worlds.device
        offset, turn = as_array(props.offset.p), to_wxyz(props.offset.r)
        target, quat = as_array(props.target.p), to_wxyz(props.target.r)
        row = np.zeros(self._data.shape[-1])
        if props.axes == _POSE:
            # the point in the world's frame and in the body's, and the world's orientation in the body's frame
            row[:3], row[3:6], row[6:10] = target, offset, multiply(turn, _inverse(quat))
            row[10] = 1.0
        else:
            row[:3], row[3:6] = offset, target  # MuJoCo has the body's point first where only positions are held
        self._data[env, index] = torch.from_numpy(row).to(device, self._data.dtype)
        mass = max(float(self._worlds.model.body_mass[1 + props.rigid_handle]), 1e-6)
        solref, impedance = spring(props.stiffness / mass, props.damping / mass, self._worlds.model.opt.timestep)
        self._solref[env, index] = torch.tensor(solref).to(device, self._solref.dtype)
        self._solimp[env, index, :2] = impedance
        self._active[env, index] = bool(props.axes != _NONE and props.stiffness > 0)


def _inverse(quat: np.ndarray) -> np.ndarray:
    return quat * np.array([1.0, -1.0, -1.0, -1.0])
