"""Physics on CPU cores: MuJoCo's batched engine (``mujoco.batch``, MuJoCo 4).

All worlds step in native threads; states are read through live views of the batch. A model for this backend has one
free joint first, hinges after it, one position actuator per hinge in the same order, and sensors named
``<link>_contact`` (net force of the link on the floor), ``<foot>_pos`` and ``<foot>_vel`` (frame position and velocity
of a foot in the world).
"""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
from __future__ import annotations

import contextlib
import os
from typing import Any, Dict, Iterator, Mapping, Optional, Union

import mujoco
import numpy as np
import torch
from mujoco import batch as mujoco_batch
from torch import Tensor

from rsl_rl.config.sim import SimConfig
from rsl_rl.sim.base import Sim
from rsl_rl.utils.host import available_cpus

_BROKEN = slice(int(mujoco.mjtWarning.mjWARN_BADQPOS), int(mujoco.mjtWarning.mjWARN_BADQACC) + 1)
"""Warnings after which MuJoCo has silently put a world back to its default state."""

_OUTPUTS = ("joint_torque", "contact_force", "foot_pos", "foot_vel", "diverged")
"""What the last step left beside the state."""


class MujocoSim(Sim):
    """N worlds of one MJCF model on CPU threads; see the module's docstring for what the model must name."""

    def __init__(self, model_path: Union[str, os.PathLike], num_envs: int, cfg: SimConfig, device: str = "cpu"):
        if torch.device(device).type != "cpu":
            raise ValueError(f"sim_device={device}: the backend 'mujoco' runs on the CPU; use --sim_device cpu")
        self.model = mujoco.MjModel.from_xml_path(str(model_path))
        self.model.opt.timestep = cfg.dt
        self.num_envs, self.device, self.dt = num_envs, torch.device("cpu"), cfg.dt
        threads = cfg.num_threads or available_cpus()
        self._batch = mujoco_batch.Batch(self.model, num_envs, threads)
        self._read_names()
        self._state = torch.from_numpy(self._batch.state)  # [N, everything] float64
        self._default_state = self._state[:1].clone()
        self._qpos = torch.from_numpy(self._batch.bind("qpos"))
        self._qvel = torch.from_numpy(self._batch.bind("qvel"))
        self._ctrl = torch.from_numpy(self._batch.bind("ctrl"))
        self._sensors = torch.from_numpy(_readable(self._batch.bind("sensordata")))
        self._torque = torch.from_numpy(_readable(self._batch.bind("actuator_force")))
        self._warmstart = torch.from_numpy(self._batch.bind("qacc_warmstart"))
        self._parameters: Dict[str, Tensor] = {}  # of each robot, as they were set
        self._allocate()
        self._refresh_state()

    def _read_names(self) -> None:
        model = self.model
        sensors = [model.sensor(i) for i in range(model.nsensor)]
        self.joint_names = tuple(model.joint(model.actuator_trnid[i, 0]).name for i in range(model.nu))
        self.link_names = tuple(s.name[: -len("_contact")] for s in sensors if s.name.endswith("_contact"))
        self.foot_names = tuple(s.name[: -len("_pos")] for s in sensors if s.name.endswith("_pos"))
        self._columns = {
            kind: np.concatenate([np.arange(s.adr[0], s.adr[0] + 3) for s in sensors if s.name.endswith(kind)])
            for kind in ("_contact", "_pos", "_vel")
        }
        self.joint_limits = torch.tensor(model.jnt_range[1:], dtype=torch.float32)
        self.torque_limits = torch.tensor(model.actuator_forcerange[:, 1], dtype=torch.float32)
        self.total_mass = torch.full((self.num_envs,), float(model.body_mass.sum()))

    def _allocate(self) -> None:
        def tensor(*shape: int) -> Tensor:
            return torch.zeros(self.num_envs, *shape)

        joints, links, feet = len(self.joint_names), len(self.link_names), len(self.foot_names)
        self.root_pos, self.root_quat = tensor(3), tensor(4)
        self.root_lin_vel, self.root_ang_vel = tensor(3), tensor(3)
        self.joint_pos, self.joint_vel, self.joint_torque = tensor(joints), tensor(joints), tensor(joints)
        self.contact_force, self.foot_pos, self.foot_vel = tensor(links, 3), tensor(feet, 3), tensor(feet, 3)
        self.diverged = torch.zeros(self.num_envs, dtype=torch.bool)

    def step(self, joint_targets: Tensor, num_substeps: int) -> None:
        self._ctrl.copy_(joint_targets)
        warnings = self._batch.warning[:, _BROKEN, 1]  # counts that start anew where the engine resets a world
        warnings[:] = 0
        with _quiet():
            self._batch.step(nstep=num_substeps)
        self.diverged.copy_(torch.from_numpy((warnings > 0).any(axis=1)))
        self._refresh_state()
        self.joint_torque.copy_(self._torque)
        self.contact_force.copy_(self._sensors[:, self._columns["_contact"]].unflatten(1, (-1, 3))).neg_()
        self._refresh_feet()

    def _refresh_feet(self) -> None:
        self.foot_pos.copy_(self._sensors[:, self._columns["_pos"]].unflatten(1, (-1, 3)))
        self.foot_vel.copy_(self._sensors[:, self._columns["_vel"]].unflatten(1, (-1, 3)))

    def _refresh_state(self) -> None:
        """Copy position and velocity out of the batch, float64 to float32."""
        self.root_pos.copy_(self._qpos[:, :3])
        self.root_quat.copy_(self._qpos[:, 3:7])
        self.joint_pos.copy_(self._qpos[:, 7:])
        self.root_lin_vel.copy_(self._qvel[:, :3])
        self.root_ang_vel.copy_(self._qvel[:, 3:6])
        self.joint_vel.copy_(self._qvel[:, 6:])

    def reset(
        self,
        mask: Tensor,
        root_pos: Tensor,
        root_quat: Tensor,
        root_lin_vel: Tensor,
        root_ang_vel: Tensor,
        joint_pos: Tensor,
        joint_vel: Tensor,
    ) -> None:
        ids = mask.nonzero().squeeze(-1)  # the engine lives on the CPU: nothing waits
        self._state[ids] = self._default_state
        self._qpos[ids] = torch.cat((root_pos, root_quat, joint_pos), dim=1)[ids].double()
        self._qvel[ids] = torch.cat((root_lin_vel, root_ang_vel, joint_vel), dim=1)[ids].double()
        self._refresh_state()
        if len(ids):
            self._batch.forward(ids.numpy(), stage=mujoco.mjtStage.mjSTAGE_VEL)
            self._refresh_feet()
            self.joint_torque[ids] = 0.0
            self.contact_force[ids] = 0.0

    def set_root_velocity(self, mask: Tensor, lin_vel: Tensor, ang_vel: Tensor) -> None:
        twist = torch.cat((lin_vel, ang_vel), dim=1).double()
        self._qvel[:, :6] = torch.where(mask.unsqueeze(1), twist, self._qvel[:, :6])
        self._refresh_state()

    def state_dict(self) -> Dict[str, Any]:
        return {
            "state": self._state.clone(),
            "outputs": {name: getattr(self, name).clone() for name in _OUTPUTS},
            "parameters": {name: value.clone() for name, value in self._parameters.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state["state"].shape != self._state.shape:
            got, own = list(state["state"].shape), list(self._state.shape)
            raise ValueError(
                f"the physics saved is of [robots, numbers] {got} and this simulation has {own}; take as many robots "
                "and the model that the run began with, or load it with load_env=False (--fresh_episodes)"
            )
        self.set_parameters(state["parameters"])
        self._state.copy_(state["state"])
        self._refresh_state()
        for name, value in state["outputs"].items():
            getattr(self, name).copy_(value)

    def physics_state(self, out: Optional[Tensor] = None) -> Tensor:
        return torch.cat((self._qpos, self._qvel, self._warmstart), dim=1, out=out)

    def set_physics_state(self, state: Tensor) -> None:
        parts = state.split([x.shape[1] for x in (self._qpos, self._qvel, self._warmstart)], dim=1)
        for own, part in zip((self._qpos, self._qvel, self._warmstart), parts):
            own.copy_(part)
        self._refresh_state()

    def parameters_of(self, robot: int) -> Dict[str, Tensor]:
        return {name: value[robot].clone() for name, value in self._parameters.items()}

    def set_parameters(self, parameters: Mapping[str, Tensor]) -> None:
        given = {name: value.cpu() for name, value in parameters.items()}
        if "friction" in given:
            self.set_friction(given["friction"])
        if "payload" in given:
            self.set_root_payload(given["payload"])
        if "stiffness" in given:
            self.set_gains(given["stiffness"], given["damping"])

    def set_friction(self, friction: Tensor) -> None:
        self._parameters["friction"] = friction.clone()
        self._batch.expand("geom_friction")[:, :, 0] = friction.numpy()[:, None]

    def set_root_payload(self, mass: Tensor) -> None:
        trunk = int(self.model.jnt_bodyid[0])
        masses, inertias = self._batch.expand("body_mass"), self._batch.expand("body_inertia")
        trunk_mass = float(self.model.body_mass[trunk])
        scale = 1.0 + mass.double().numpy() / trunk_mass
        if scale.min() <= 0:
            raise ValueError(f"a payload of {float(mass.min()):g} kg takes off more than the trunk's {trunk_mass:g} kg")
        self._parameters["payload"] = mass.clone()
        masses[:, trunk] = self.model.body_mass[trunk] * scale
        inertias[:, trunk] = self.model.body_inertia[trunk] * scale[:, None]
        self._batch.set_const()
        self.total_mass.copy_(torch.from_numpy(masses.sum(axis=1)))

    def set_gains(self, stiffness: Tensor, damping: Tensor) -> None:
        self._parameters.update(stiffness=stiffness.clone(), damping=damping.clone())
        gain, bias = self._batch.expand("actuator_gainprm"), self._batch.expand("actuator_biasprm")
        gain[:, :, 0] = stiffness.numpy()
        bias[:, :, 1] = -stiffness.numpy()
        bias[:, :, 2] = -damping.numpy()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep MuJoCo from writing a log file into the user's folder for each broken world; ``diverged`` tells of them."""
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(_ignore)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)


def _ignore(message: str) -> None:
    pass


def _readable(array: np.ndarray) -> np.ndarray:
    """Hand a read-only output of the batch to torch, which knows no read-only tensors; nobody here writes to it."""
    view = array.view()
    view.flags.writeable = True
    return view
