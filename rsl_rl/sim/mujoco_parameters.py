"""Parameters of each robot in the MuJoCo engines: fields of the model with a row for each world."""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, Callable, Dict

import torch
from torch import Tensor

from rsl_rl.sim.base import Sim

_CONTACT_FREQUENCY = 60.0
"""Natural frequency of contacts of robots with a restitution [rad/s]; about 0.05 s in contact."""


class MujocoParameters(Sim):
    """The part of the MuJoCo engines that sets parameters.

    The model has one free joint first, then hinges, one actuator per hinge in the same order. Friction and restitution
    of a robot are set for all its geoms and all pairs.
    """

    model: Any  # mujoco.MjModel
    _trunk: int  # body of the free joint
    _qpos: Tensor  # [N, 7 + J]
    _applied_force: Tensor  # [N, bodies, 6] force and torque on each body, world

    @abstractmethod
    def _field(self, name: str) -> Tensor:
        """Return a field of the model with a row for each world, [N, ...], which may be written to."""

    @abstractmethod
    def _update_constants(self) -> None:
        """Recompute what the engine derives from masses and inertias."""

    def _read_bodies(self) -> None:
        """Find the links of the robot."""
        model = self.model
        self._bodies = [i for i in range(model.nbody) if model.body_rootid[i] == self._trunk and model.body_mass[i] > 0]
        self.body_names = tuple(model.body(i).name for i in self._bodies)

    def _setters(self) -> Dict[str, Callable[[Tensor], None]]:
        return {
            "friction": self.set_friction,
            "restitution": self._set_restitution,
            "payload": self.set_root_payload,
            "link_mass": self._set_link_mass,
            "trunk_com": self._set_trunk_com,
            "motor_strength": lambda value: self._set_drives(motor_strength=value),
            "torque_limit": lambda value: self._set_drives(torque_limit=value),
            "armature": self._set_armature,
            "joint_friction": self._set_joint_friction,
            "gravity": self._set_gravity,
            "trunk_force": lambda value: self._store(trunk_force=value),
        }

    def _model_value(self, name: str) -> Any:
        model = self.model
        drives = {"stiffness": model.actuator_gainprm[:, 0], "damping": -model.actuator_biasprm[:, 2]}
        joints = {"armature": model.dof_armature[6:], "joint_friction": model.dof_frictionloss[6:]}
        limits = {"torque_limit": model.actuator_forcerange[:, 1], "gravity": model.opt.gravity}
        friction = model.pair_friction[:, 0] if model.npair else model.geom_friction[:, 0]
        neutral = {"link_mass": 1.0, "motor_strength": 1.0, "friction": float(friction.max())}
        return {**drives, **joints, **limits, **neutral}.get(name, 0.0)

    def set_friction(self, friction: Tensor) -> None:
        self._store(friction=friction)
        sliding = friction.to(self._qpos.dtype).unsqueeze(1)
        self._field("geom_friction")[:, :, 0] = sliding
        if self.model.npair:  # whose friction, along two axes, is their own
            self._field("pair_friction")[:, :, :2] = sliding.unsqueeze(2)

    def _set_restitution(self, restitution: Tensor) -> None:
        """Approximate a restitution by the damping ratio of the contacts, which are springs with dampers in MuJoCo.

        A spring with damper and damping ratio z ends its first half-period with exp(-pi z / sqrt(1 - z^2)) of its
        speed.
        """
        if not bool(((restitution >= 0) & (restitution < 1)).all()):
            raise ValueError(
                f"restitutions from {float(restitution.min()):g} to {float(restitution.max()):g}; give 0 to 1"
            )
        self._store(restitution=restitution)
        decay = -restitution.double().clamp(min=1e-3).log()
        ratio = decay / (decay.square() + math.pi**2).sqrt()  # [N] damping ratio
        reference = torch.stack((1.0 / (_CONTACT_FREQUENCY * ratio), ratio), dim=1)
        for name in ("geom_solref", "pair_solref") if self.model.npair else ("geom_solref",):
            field = self._field(name)
            model_value = torch.as_tensor(getattr(self.model, name), device=self.device).to(field.dtype)
            bouncing = (restitution > 0).view(-1, 1, 1)
            field[:] = torch.where(bouncing, reference.to(field.dtype).unsqueeze(1), model_value)

    def set_root_payload(self, mass: Tensor) -> None:
        trunk_mass = float(self.model.body_mass[self._trunk])
        if bool((mass <= -trunk_mass).any()):
            raise ValueError(f"a payload of {float(mass.min()):g} kg takes off more than the trunk's {trunk_mass:g} kg")
        self._store(payload=mass)
        self._write_masses()

    def _set_link_mass(self, factor: Tensor) -> None:
        if not bool((factor > 0).all()):
            raise ValueError(f"a link's mass times {float(factor.min()):g}; give positive factors")
        self._store(link_mass=factor)
        self._write_masses()

    def _write_masses(self) -> None:
        """Write masses and inertias, which are scaled with the mass, of all links whose mass was set."""
        masses, inertias, dtype = self._field("body_mass"), self._field("body_inertia"), self._qpos.dtype
        factor = self._parameters.get("link_mass")
        for i, body in enumerate(self._bodies if factor is not None else [self._trunk]):
            scale = 1.0 if factor is None else factor[:, i].to(dtype)
            own = float(self.model.body_mass[body])
            if body == self._trunk and "payload" in self._parameters:
                scale = scale + self._parameters["payload"].to(dtype) / own
            masses[:, body] = own * scale
            inertia = torch.as_tensor(self.model.body_inertia[body], device=self.device)
            inertias[:, body] = (inertia * torch.as_tensor(scale).view(-1, 1)).to(dtype)
        self._update_constants()
        self.total_mass.copy_(masses.sum(dim=1))

    def _set_trunk_com(self, offset: Tensor) -> None:
        self._store(trunk_com=offset)
        field = self._field("body_ipos")
        own = torch.as_tensor(self.model.body_ipos[self._trunk], device=self.device)
        field[:, self._trunk] = (own + offset).to(field.dtype)
        self._update_constants()

    def use_torques(self) -> None:
        self._takes_torques = True
        self._write_drives()

    def set_gains(self, stiffness: Tensor, damping: Tensor) -> None:
        self._store(stiffness=stiffness, damping=damping)
        self._write_drives()

    def _set_drives(self, **values: Tensor) -> None:
        self._store(**values)
        self._write_drives()

    def _write_drives(self) -> None:
        """Write gains and limits: force = strength * (stiffness * (target - position) - damping * velocity), or the
        strength times the given torque."""
        gain, bias = self._field("actuator_gainprm"), self._field("actuator_biasprm")
        own, strength = self._parameters, self._parameters.get("motor_strength")
        stiffness, damping = (own.get(name, self.nominal_parameter(name)) for name in ("stiffness", "damping"))
        if self._takes_torques:
            stiffness, damping = torch.ones_like(stiffness), torch.zeros_like(damping)
        factor = 1.0 if strength is None else strength
        gain[:, :, 0] = (stiffness * factor).to(gain.dtype)
        bias[:, :, 1] = 0.0 if self._takes_torques else -(stiffness * factor).to(bias.dtype)
        bias[:, :, 2] = -(damping * factor).to(bias.dtype)
        if strength is None and "torque_limit" not in own:
            return
        limit = (own.get("torque_limit", self.nominal_parameter("torque_limit")) * factor).to(gain.dtype)
        self._field("actuator_forcerange")[:] = torch.stack((-limit, limit), dim=-1)

    def _set_armature(self, armature: Tensor) -> None:
        self._store(armature=armature)
        self._field("dof_armature")[:, 6:] = armature.to(self._qpos.dtype)
        self._update_constants()

    def _set_joint_friction(self, friction: Tensor) -> None:
        self._store(joint_friction=friction)
        self._field("dof_frictionloss")[:, 6:] = friction.to(self._qpos.dtype)

    def _set_gravity(self, gravity: Tensor) -> None:
        self._store(gravity=gravity)
        self._field("opt.gravity")[:] = gravity.to(self._qpos.dtype)

    def _write_force(self) -> None:
        """Write the force on the trunk, which a reset of a world clears; call it before each step."""
        if "trunk_force" in self._parameters:
            self._applied_force[:, self._trunk, :3] = self._parameters["trunk_force"].to(self._qpos.dtype)
