"""Base class of the MuJoCo engines: names in the model file, and conversion of arrays to the tensors of Sim.

A model has one free joint first, then hinges, one position actuator per hinge in the same order, and sensors named
``<link>_contact`` (net force of the link on the floor), ``<foot>_pos`` and ``<foot>_vel`` (frame position and velocity
of a foot in the world), and for feet with a sole ``<foot>_up`` (z axis of the frame in the world). The model defines
which geoms collide, by ``contype`` and ``conaffinity`` or by pairs. The friction of a robot is set for all its geoms
and all pairs. A height field replaces the geom "floor".
"""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
from __future__ import annotations

import math
import os
from abc import abstractmethod
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import mujoco
import torch
from torch import Tensor

from rsl_rl.config.sim import SimConfig
from rsl_rl.sim.base import RobotPoseVel, Sim
from rsl_rl.sim.kinematics import LinkKinematics, Step, rotation_matrix
from rsl_rl.utils.height_field import HeightField
from rsl_rl.utils.mujoco_model import load_model
from rsl_rl.utils.registry import suggest
from rsl_rl.utils.tensors import ColumnSelector

NO_SENSORS = int(mujoco.mjtDisableBit.mjDSBL_SENSOR)
"""Flag of all physics steps of a control step except the last one: sensors are not read in between."""

NO_MIDPHASE = int(mujoco.mjtDisableBit.mjDSBL_MIDPHASE)

_CONTACT_FREQUENCY = 60.0
"""Natural frequency of contacts of robots with a restitution [rad/s]; about 0.05 s in contact."""


class MujocoRobots(Sim):
    """N worlds of one MJCF model; see the module's docstring for its names.

    A subclass binds the tensors below to the arrays of its engine.
    """

    _qpos: Tensor  # [N, 7 + J]
    _qvel: Tensor  # [N, 6 + J]
    _ctrl: Tensor  # [N, J] joint targets, or torques
    _warmstart: Tensor  # [N, 6 + J] acceleration that the solver starts from
    _sensors: Tensor  # [N, everything]
    _torque: Tensor  # [N, J]
    _applied_force: Tensor  # [N, bodies, 6] force and torque on each body, world

    def __init__(
        self,
        model_path: Union[str, os.PathLike],
        num_envs: int,
        cfg: SimConfig,
        device: torch.device,
        ground: Optional[HeightField] = None,
    ):
        self.model, self.ground = load_model(model_path, ground), ground
        self.model.opt.timestep = cfg.dt
        if cfg.contact_impedance:
            self._set_contact_impedance(cfg.contact_impedance)
        self.num_envs, self.device, self.dt = num_envs, device, cfg.dt
        self._trunk = int(self.model.jnt_bodyid[0])
        self._read_names()
        self._allocate()
        if not self._has_soles:
            self.foot_up = self.foot_up[:, :0]

    def _set_contact_impedance(self, impedance: float) -> None:
        """Set the impedance of all contacts, and allow the solver at least 50 iterations.

        The shipped model files allow 10. With a high impedance the solver then stops before it converges when robots
        move fast, and contact forces throw them into the air.
        """
        for solimp in (self.model.geom_solimp, self.model.pair_solimp):
            solimp[:, :2] = impedance
        self.model.opt.iterations = max(self.model.opt.iterations, 50)

    def _read_names(self) -> None:
        model = self.model
        sensors = [model.sensor(i) for i in range(model.nsensor)]
        self.joint_names = tuple(model.joint(model.actuator_trnid[i, 0]).name for i in range(model.nu))
        self.link_names = tuple(s.name[: -len("_contact")] for s in sensors if s.name.endswith("_contact"))
        self.foot_names = tuple(s.name[: -len("_pos")] for s in sensors if s.name.endswith("_pos"))
        self._columns = {
            kind: ColumnSelector(
                [int(s.adr[0]) + axis for s in sensors if s.name.endswith(kind) for axis in range(3)], self.device
            )
            for kind in ("_contact", "_pos", "_vel", "_up")
        }
        self._has_soles = any(s.name.endswith("_up") for s in sensors)
        self.joint_limits = torch.tensor(model.jnt_range[1:], dtype=torch.float32, device=self.device)
        self.torque_limits = torch.tensor(model.actuator_forcerange[:, 1], dtype=torch.float32, device=self.device)
        self.total_mass = torch.full((self.num_envs,), float(model.body_mass.sum()), device=self.device)
        self._bodies = [i for i in range(model.nbody) if model.body_rootid[i] == self._trunk and model.body_mass[i] > 0]
        self.body_names = tuple(model.body(i).name for i in self._bodies)

    def link_kinematics(self, names: Sequence[str]) -> LinkKinematics:
        own = [i for i in range(1, self.model.nbody) if self.model.body_rootid[i] == self._trunk]
        bodies = {self.model.body(i).name: i for i in own}
        chains: List[List[Step]] = []
        for name in names:
            if name in bodies:
                chains.append(self._chain_of(bodies[name]))
            elif name in self.foot_names:
                chains.append(self._chain_of_foot(name))
            else:
                known = ", ".join(bodies)
                raise ValueError(f"unknown link '{name}'; this model has {known}.{suggest(name, bodies)}")
        return LinkKinematics(chains, self.device)

    def _chain_of_foot(self, name: str) -> List[Step]:
        """Return the steps from the trunk to the object whose position the sensor of a foot measures."""
        model, sensor = self.model, self.model.sensor(f"{name}_pos")
        kind, index = mujoco.mjtObj(int(sensor.objtype[0])), int(sensor.objid[0])
        if kind == mujoco.mjtObj.mjOBJ_SITE:
            body, pos, quat = model.site_bodyid[index], model.site_pos[index], model.site_quat[index]
        elif kind == mujoco.mjtObj.mjOBJ_GEOM:
            body, pos, quat = model.geom_bodyid[index], model.geom_pos[index], model.geom_quat[index]
        else:
            return self._chain_of(index)
        return [*self._chain_of(int(body)), Step(torch.tensor(pos), _turn_of(quat))]

    def _chain_of(self, body: int) -> List[Step]:
        """Return the steps from the trunk to a body."""
        model = self.model
        steps: List[Step] = []
        while body != self._trunk:
            own = [Step(torch.tensor(model.body_pos[body]), _turn_of(model.body_quat[body]))]
            first = int(model.body_jntadr[body])
            for i in range(first, first + int(model.body_jntnum[body])):
                anchor, axis = (torch.tensor(values[i]) for values in (model.jnt_pos, model.jnt_axis))
                half = -float(model.qpos0[model.jnt_qposadr[i]]) / 2  # of the angle at which the body is not turned
                start = _turn_of([math.cos(half), *(math.sin(half) * model.jnt_axis[i])])
                own += [Step(anchor, start, axis, self.joint_names.index(model.joint(i).name)), Step(-anchor)]
            steps, body = own + steps, int(model.body_parentid[body])
        return steps

    def _refresh(self) -> None:
        """Update all outputs after a step."""
        self._refresh_state()
        self.joint_torque.copy_(self._torque)
        self.contact_force.copy_(self._sensed("_contact")).neg_()
        self.foot_pos.copy_(self._sensed("_pos"))
        self.foot_vel.copy_(self._sensed("_vel"))
        self.foot_up.copy_(self._sensed("_up"))

    @abstractmethod
    def _refresh_state(self) -> None:
        """Update the state tensors from the engine's positions and velocities."""

    def _engine_pose_vel(self) -> RobotPoseVel:
        """Return views of the engine's positions and velocities."""
        root_pos, root_quat, joint_pos = self._qpos.tensor_split([3, 7], dim=1)
        root_lin_vel, root_ang_vel, joint_vel = self._qvel.tensor_split([3, 6], dim=1)
        return RobotPoseVel(root_pos, root_quat, root_lin_vel, root_ang_vel, joint_pos, joint_vel)

    def _sensed(self, kind: str) -> Tensor:
        """Return the sensors whose names end with ``kind``, [N, sensors, 3]."""
        values = self._columns[kind](self._sensors)
        return values.view(self.num_envs, values.shape[1] // 3, 3)

    def _in_engine_terms(self, pose_vel: RobotPoseVel) -> Tuple[Tensor, Tensor]:
        """Return positions and velocities in the engine's layout."""
        dtype = self._qpos.dtype
        qpos = torch.cat((pose_vel.root_pos, pose_vel.root_quat, pose_vel.joint_pos), dim=1).to(dtype)
        return qpos, torch.cat((pose_vel.root_lin_vel, pose_vel.root_ang_vel, pose_vel.joint_vel), dim=1).to(dtype)

    def _state_parts(self) -> Tuple[Tensor, ...]:
        return self._qpos, self._qvel, self._warmstart

    def physics_state(self, out: Optional[Tensor] = None) -> Tensor:
        return torch.cat(self._state_parts(), dim=1, out=out)

    def set_physics_state(self, state: Tensor) -> None:
        parts = self._state_parts()
        for own, part in zip(parts, state.split([part.shape[1] for part in parts], dim=1)):
            own.copy_(part)
        self._refresh_state()

    @abstractmethod
    def _field(self, name: str) -> Tensor:
        """Return a field of the model with a row for each world, [N, ...], which may be written to."""

    @abstractmethod
    def _update_constants(self) -> None:
        """Recompute what the engine derives from masses and inertias."""

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


def _turn_of(quat: Sequence[float]) -> Tensor:
    """Return the rotation matrix [3, 3] of a quaternion w x y z."""
    return rotation_matrix(torch.tensor([*quat], dtype=torch.float32).unsqueeze(0))[0]
