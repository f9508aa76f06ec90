"""Forces on bodies: those that a client applies, contact forces, and force sensors."""

# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

from typing import Optional

import numpy as np
import torch
from torch import Tensor

from gymapi_mujoco.enums import CoordinateSpace
from gymapi_mujoco.kinematics import Kinematics
from gymapi_mujoco.model import Layout
from gymapi_mujoco.properties import ModelProperties
from gymapi_mujoco.rotations import rotate, rotate_inverse
from gymapi_mujoco.scene import Scene
from gymapi_mujoco.states import Coordinates


class AppliedForces:
    """Forces and torques on bodies that a client applies for one time step."""

    def __init__(self, scene: Scene, layout: Layout, kinematics: Kinematics):
        self._layout, self._kinematics = layout, kinematics
        self._applied = kinematics.worlds.state("xfrc_applied")  # [N, 1 + B, 6] force, torque
        self._origins = torch.from_numpy(np.stack(scene.origins)).float().to(layout.device)
        self._given = False
        self.of_last_step: Optional[Tensor] = None
        """Forces [N, B, 3] that were applied in the last step."""

    def at_centres(self, force: Optional[Tensor], torque: Optional[Tensor], space: CoordinateSpace) -> None:
        """Add forces and torques [N, B, 3] at the centres of mass; of the environment's and the world's axes, which are
        the same, or of the bodies'."""
        zero = self._layout.zeros(self._layout.num_envs, self._layout.num_bodies, 3)
        force, torque = (zero if x is None else x for x in (force, torque))
        if space == CoordinateSpace.LOCAL_SPACE:
            quat = self._kinematics.get("xquat")[0][:, 1:].float()
            force, torque = rotate(quat, force), rotate(quat, torque)
        self.add(force, torque)

    def at_positions(self, force: Tensor, pos: Tensor, space: CoordinateSpace) -> None:
        """Add forces [N, B, 3] at positions [N, B, 3] in the world, the environment or the body's frame."""
        quat, origin, com = (x[:, 1:].float() for x in self._kinematics.get("xquat", "xpos", "xipos"))
        if space == CoordinateSpace.LOCAL_SPACE:
            force, pos = rotate(quat, force), origin + rotate(quat, pos)
        elif space == CoordinateSpace.GLOBAL_SPACE:
            pos = pos - self._origins[:, None]
        self.add(force, torch.linalg.cross(pos - com, force))

    def add(self, force: Tensor, torque: Tensor) -> None:
        """Add forces and torques [N, B, 3] at the centres of mass, in world axes."""
        if not self._given:
            self._applied.zero_()
        self._applied[:, 1:, :3] += force
        self._applied[:, 1:, 3:] += torque
        self._given = True

    def begin_step(self) -> None:
        if not self._given and self.of_last_step is not None:
            self._applied.zero_()
        self.of_last_step = self._applied[:, 1:, :3].clone() if self._given else None
        self._given = False


class ContactForces:
    """The net contact force on each body in the last substep, in world axes; applied forces are not part of it."""

    def __init__(self, layout: Layout, coordinates: Coordinates, applied: AppliedForces, kinematics: Kinematics):
        self._coordinates, self._applied, self._kinematics = coordinates, applied, kinematics
        self._wrench = kinematics.worlds.result("cfrc_ext")  # [N, 1 + B, 6] torque, force; applied ones are part of it
        self.buffer = layout.zeros(layout.num_envs * layout.num_bodies, 3)
        self._rows = self.buffer.view(layout.num_envs, layout.num_bodies, 3)
        kinematics.keep(self._copy)

    def _copy(self) -> None:
        force, applied = self._wrench[:, 1:, 3:], self._applied.of_last_step
        self._force = force - applied if applied is not None else force.float()

    def refresh(self) -> None:
        self._kinematics.copy_last_substep()
        self._rows.copy_(self._force)
        self._coordinates.show_broken(self._rows)


class ForceSensors:
    """Wrench on a body at a sensor's place, in the sensor's axes or the world's.

    Constraint forces are the contact forces on the body; forward dynamics forces are its weight and the applied forces.
    What PhysX adds to them, the forces of the body's joints, is not part of it.
    """

    _RESULTS = ("cfrc_ext", "xpos", "xquat", "xipos", "subtree_com")

    def __init__(self, scene: Scene, properties: ModelProperties, applied: AppliedForces, kinematics: Kinematics):
        self._properties, self._applied, self._kinematics = properties, applied, kinematics
        self._worlds = worlds = kinematics.worlds
        actors = [actor for actor in scene.actors[0] for _ in actor.asset.sensors]
        self._sensors = [sensor for actor in scene.actors[0] for sensor in actor.asset.sensors]
        self._bodies = [1 + actor.body_start + sensor.body for actor, sensor in zip(actors, self._sensors)]
        num_envs, device = worlds.num, worlds.device
        self.buffer = torch.zeros(num_envs * len(self._sensors), 6, device=device)
        self._latest = torch.zeros(num_envs, len(self._sensors), 6, device=device)
        self._results = {name: worlds.result(name) for name in self._RESULTS}
        if self._sensors:
            self._ids = torch.tensor(self._bodies).to(device)
            self._roots = torch.from_numpy(worlds.model.body_rootid[self._bodies].astype(np.int64)).to(device)
            self._local = torch.tensor(np.stack([sensor.pos for sensor in self._sensors])).float().to(device)
            self._turns = torch.tensor(np.stack([sensor.quat for sensor in self._sensors])).float().to(device)
            kinematics.keep(self._copy)

    def _copy(self) -> None:
        """Compute the wrenches while the worlds' results are those of the last substep."""
        ids = self._ids
        wrench, pos, quat, com, tree = (self._results[name].float() for name in self._RESULTS)
        torque, force = wrench[:, ids, :3], wrench[:, ids, 3:]
        at = pos[:, ids] + rotate(quat[:, ids], self._local.expand(len(pos), -1, 3))
        torque = torque + torch.linalg.cross(tree[:, self._roots] - at, force)
        of_last_step = self._applied.of_last_step
        applied = None if of_last_step is None else of_last_step[:, ids - 1].float()
        if applied is not None:  # contained in MuJoCo's, and no contact force
            force, torque = force - applied, torque - torch.linalg.cross(com[:, ids] - at, applied)
        weight = self._worlds.values("body_mass")[:, ids].float()[..., None] * self._properties.gravity
        weight = weight.expand(force.shape) if applied is None else weight + applied
        weight_torque = torch.linalg.cross(com[:, ids] - at, weight)
        for k, (body, sensor) in enumerate(zip(self._bodies, self._sensors)):
            total = sensor.contact * force[:, k] + sensor.dynamics * weight[:, k]
            moment = sensor.contact * torque[:, k] + sensor.dynamics * weight_torque[:, k]
            if not sensor.world_frame:
                turn = self._turns[k].expand(len(total), 4)
                total = rotate_inverse(turn, rotate_inverse(quat[:, body], total))
                moment = rotate_inverse(turn, rotate_inverse(quat[:, body], moment))
            self._latest[:, k, :3], self._latest[:, k, 3:] = total, moment

    def refresh(self) -> None:
        self._kinematics.copy_last_substep()
        self.buffer.view(self._latest.shape).copy_(self._latest)
