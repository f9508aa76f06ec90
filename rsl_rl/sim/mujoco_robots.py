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

import os
from abc import abstractmethod
from typing import Optional, Tuple, Union

import mujoco
import torch
from torch import Tensor

from rsl_rl.config.sim import SimConfig
from rsl_rl.sim.base import RobotPoseVel
from rsl_rl.sim.mujoco_parameters import MujocoParameters
from rsl_rl.utils.height_field import HeightField
from rsl_rl.utils.mujoco_model import load_model
from rsl_rl.utils.tensors import ColumnSelector

NO_SENSORS = int(mujoco.mjtDisableBit.mjDSBL_SENSOR)
"""Flag of all physics steps of a control step except the last one: sensors are not read in between."""

NO_MIDPHASE = int(mujoco.mjtDisableBit.mjDSBL_MIDPHASE)


class MujocoRobots(MujocoParameters):
    """N worlds of one MJCF model; see the module's docstring for its names.

    A subclass binds the tensors below to the arrays of its engine.
    """

    _qpos: Tensor  # [N, 7 + J]
    _qvel: Tensor  # [N, 6 + J]
    _ctrl: Tensor  # [N, J] joint targets, or torques
    _warmstart: Tensor  # [N, 6 + J] acceleration that the solver starts from
    _sensors: Tensor  # [N, everything]
    _torque: Tensor  # [N, J]

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
        self._read_bodies()
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
