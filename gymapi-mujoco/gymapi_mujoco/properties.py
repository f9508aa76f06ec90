"""The actors' properties in the model: friction, mass, centre of mass, DoF properties, gravity, fixed bases.

A field of the model gets values of its own per environment only where environments differ.
"""

# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

from typing import Any, Dict, List

import mujoco
import numpy as np
import torch
from torch import Tensor

from gymapi_mujoco.actuation import Drives, VelocityLimits
from gymapi_mujoco.contacts import solref
from gymapi_mujoco.enums import DofDriveMode
from gymapi_mujoco.friction import JointFriction
from gymapi_mujoco.scene import Actor, Scene
from gymapi_mujoco.structs import as_array
from gymapi_mujoco.worlds import Worlds

_POS, _VEL = int(DofDriveMode.DOF_MODE_POS), int(DofDriveMode.DOF_MODE_VEL)


class ModelProperties:
    """Writes what the actors have to the model's fields; ``update`` makes derived constants follow."""

    def __init__(
        self, scene: Scene, worlds: Worlds, drives: Drives, velocity_limits: VelocityLimits, friction: JointFriction
    ):
        self._scene, self._worlds, self._model = scene, worlds, worlds.model
        self._drives, self._velocity_limits, self._friction = drives, velocity_limits, friction
        self._stale = False
        self.gravity = self._gravity()  # [3]
        grounds = scene.grounds[:1]
        self._ground_friction = grounds[0].friction if grounds else 1.0
        self._ground_restitution = grounds[0].restitution if grounds else 0.0
        self._shapes: List[np.ndarray] = []
        self._dofs: List[np.ndarray] = []
        self._com: Dict[int, Tensor] = {}
        everyone = np.arange(len(scene.actors))
        for actor in scene.actors[0]:
            names = [f"{actor.index}/{body}/{i}" for i, (body, _) in enumerate(actor.asset.shapes)]
            self._shapes.append(np.array([self._model.geom(name).id for name in names], dtype=np.int64))
            joints = [self._model.joint(f"{actor.index}/{name}") for name in actor.asset.dof_names]
            self._dofs.append(np.array([joint.dofadr[0] for joint in joints], dtype=np.int64))
        for i, ground in enumerate(scene.grounds):
            geom, moved = self._model.geom(f"ground{i}"), ground.moved(np.stack(scene.origins))
            self._stale |= self._write("geom_pos", everyone, np.array([geom.id]), geom.pos + moved[:, None])
        for index in range(len(scene.actors[0])):
            self.apply_contacts(index, everyone)
            self.apply_masses(index, everyone)
            self.apply_dofs(index, everyone)

    def update(self) -> None:
        """Recompute the constants that follow from masses, inertias and poses."""
        if self._stale:
            self._worlds.update_constants()
            self._stale = False

    def _write(self, name: str, worlds: Any, columns: np.ndarray, values: Any, component: Any = ()) -> bool:
        """Write values [W, columns, ...] of a field; return whether anything changed.

        ``component`` picks one number of each entry, as friction's first of three.
        """
        device, dtype = self._worlds.device, self._worlds.dtype
        rows, values = torch.as_tensor(worlds, device=device), torch.as_tensor(values).to(device, dtype)
        place: Any = (torch.from_numpy(columns).to(device),) + ((component,) if component != () else ())
        own = self._worlds.values(name)
        before = own[(slice(None), *place)] if len(own) == 1 else own[(rows[:, None], *place)]
        if torch.equal(before.expand(values.shape), values):
            return False
        self._worlds.field(name)[(rows[:, None], *place)] = values
        return True

    def _actors(self, index: int, worlds: np.ndarray) -> List[Actor]:
        return [self._scene.actors[i][index] for i in worlds]

    def apply_contacts(self, index: int, worlds: np.ndarray) -> None:
        """Use the means of the shape's and the ground's friction and restitution, as PhysX does."""
        actors = self._actors(index, worlds)
        friction, bounce = (np.stack([getattr(x, name) for x in actors]) for name in ("friction", "restitution"))
        if friction.size:
            shapes = self._shapes[index]
            self._write("geom_friction", worlds, shapes, (friction + self._ground_friction) / 2, 0)
            mean = (bounce + self._ground_restitution) / 2
            self._write("geom_solref", worlds, shapes, solref(mean, self._model.opt.timestep))

    def apply_masses(self, index: int, worlds: np.ndarray) -> None:
        """Write masses, centres of mass and inertias where they differ from the asset's."""
        actors = self._actors(index, worlds)
        asset, first = actors[0].asset, 1 + actors[0].body_start
        bodies = np.arange(first, first + len(asset.bodies))
        mass, com = np.stack([actor.mass for actor in actors]), np.stack([actor.com for actor in actors])
        inertia = np.stack([actor.inertia for actor in actors])
        model = self._model
        heavy = asset.masses > 0
        fixed = (model.body_simple[bodies] > 0) & (com != model.body_ipos[bodies]).any(axis=(0, 2))
        if fixed.any():
            raise ValueError(
                f"set_actor_rigid_body_properties: another centre of mass of '{asset.body_names[int(fixed.argmax())]}' "
                "after prepare_sim, and no environment had one before; set it in one environment before prepare_sim"
            )
        values = np.where(heavy | (mass > 0), mass, model.body_mass[bodies])
        self._stale |= self._write("body_mass", worlds, bodies, values)
        self._stale |= self._write("body_ipos", worlds, bodies, com)
        trace, own = np.trace(asset.inertias, axis1=1, axis2=2), np.trace(inertia, axis1=2, axis2=3)
        growth = np.where(trace > 0, own / np.where(trace > 0, trace, 1.0), 1.0)
        scaled = growth[..., None, None] * asset.inertias
        reshaped = np.abs(inertia - scaled).max(axis=(2, 3)) > 1e-6 * np.maximum(own, 1e-12)
        principal = growth[..., None] * model.body_inertia[bodies]
        axes = np.broadcast_to(model.body_iquat[bodies], (*principal.shape[:2], 4)).copy()
        for world, body in zip(*np.nonzero(reshaped)):
            principal[world, body], vectors = np.linalg.eigh(inertia[world, body])
            vectors[:, 2] *= np.sign(np.linalg.det(vectors))
            mujoco.mju_mat2Quat(axes[world, body], vectors.ravel())
        self._stale |= self._write("body_inertia", worlds, bodies, principal)
        if reshaped.any():
            self._stale |= self._write("body_iquat", worlds, bodies, axes)
        own_com = self._worlds.values("body_ipos")[:, first].float().clone()
        self._com[first] = own_com[0] if len(own_com) == 1 else own_com

    def com(self, body: int) -> Tensor:
        """Return the centre of mass of a root body, [3] or [N, 3], in its frame."""
        return self._com[body]

    def apply_dofs(self, index: int, worlds: np.ndarray) -> None:
        """Write damping, armature, limits and gains of the DoFs."""
        actors = self._actors(index, worlds)
        dofs = self._dofs[index]
        if not len(dofs):
            return
        props = np.stack([actor.dof_properties for actor in actors])
        driven = np.isin(props["driveMode"], (_POS, _VEL))
        damping = props["damping"].astype(float)
        self._write("dof_damping", worlds, dofs, np.where(driven, 0.0, damping))
        springs = np.where(driven, 0.0, props["stiffness"].astype(float))
        self._write("jnt_stiffness", worlds, self._model.dof_jntid[dofs], springs)
        self._stale |= self._write("dof_armature", worlds, dofs, props["armature"].astype(float))
        joints = self._model.dof_jntid[dofs]
        limits = np.stack([props["lower"], props["upper"]], axis=-1).astype(float)
        limits = np.where(props["hasLimits"][..., None], limits, self._model.jnt_range[joints])
        self._write("jnt_range", worlds, joints, limits)
        rows = torch.as_tensor(worlds, device=self._worlds.device)
        own = slice(actors[0].dof_start, actors[0].dof_start + len(dofs))
        self._velocity_limits.set(rows, own, np.where(props["velocity"] > 0, props["velocity"], np.inf))
        self._friction.set(rows, own, props["friction"].astype(float))
        if not self._model.nu:
            if driven.any():
                raise ValueError(
                    "set_actor_dof_properties: a drive after prepare_sim, and no DoF had one before; set driveMode to "
                    "DOF_MODE_POS or DOF_MODE_VEL before prepare_sim"
                )
            return
        columns = np.arange(own.start, own.stop)
        stiffness = np.where(props["driveMode"] == _POS, props["stiffness"], 0.0)
        damping = np.where(driven, damping, 0.0)
        ones = np.where(driven, 1.0, 0.0)
        self._write("actuator_gainprm", worlds, columns, ones, 0)
        self._write("actuator_biasprm", worlds, columns, -stiffness, 1)
        self._write("actuator_biasprm", worlds, columns, -damping - self._model.opt.timestep * stiffness, 2)
        limits = np.where(driven & (props["effort"] > 0), props["effort"], np.inf)
        self._drives.set(rows, own, stiffness, damping, limits, props["armature"])

    def apply_gravity(self) -> None:
        self._worlds.field("opt.gravity")[:] = torch.from_numpy(as_array(self._scene.params.gravity))
        self.gravity = self._gravity()

    def _gravity(self) -> Tensor:
        return torch.from_numpy(as_array(self._scene.params.gravity)).float().to(self._worlds.device)

    def place_base(self, body: int, pos: Tensor, quat: Tensor, worlds: Tensor) -> None:
        """Place fixed bases."""
        w, x, y, z = quat.unbind(1)
        quat = quat / (w * w + x * x + y * y + z * z).sqrt()[:, None]
        moved = self._write("body_pos", worlds, np.array([body]), pos[:, None])
        moved |= self._write("body_quat", worlds, np.array([body]), quat[:, None])
        self._stale |= moved
