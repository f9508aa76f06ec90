"""Physics on CPU cores: MuJoCo's batched engine (``mujoco.batch``, MuJoCo 4).

All worlds step in native threads; states are read through live views of the batch.
"""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
from __future__ import annotations

import contextlib
import ctypes
import os
from typing import Iterator, Tuple, Union

import mujoco
import numpy as np
import torch
from mujoco import batch as mujoco_batch
from torch import Tensor

from rsl_rl.config.sim import SimConfig
from rsl_rl.sim.base import RobotPoseVel
from rsl_rl.sim.mujoco_robots import NO_SENSORS, MujocoRobots
from rsl_rl.utils.host import available_cpus

_START_TIME = 1.0
"""Time at which a step starts. A world that diverges is silently put back to its default state, and to time zero."""


class MujocoSim(MujocoRobots):
    """N worlds on CPU threads. A world that diverges is back in its default state when ``step`` returns.

    Building one stops the timers of ``MjData`` in this process, unless ``mujoco.set_mjcb_time`` has given them a clock.
    """

    def __init__(self, model_path: Union[str, os.PathLike], num_envs: int, cfg: SimConfig, device: str = "cpu"):
        if torch.device(device).type != "cpu":
            raise ValueError(f"sim_device={device}: the backend 'mujoco' runs on the CPU; use --sim_device cpu")
        super().__init__(model_path, num_envs, cfg.dt, torch.device("cpu"))
        _stop_timers()
        self._batch = mujoco_batch.Batch(self.model, num_envs, cfg.num_threads or available_cpus())
        self._state = torch.from_numpy(self._batch.state)  # [N, everything] float64
        self._time = torch.from_numpy(self._batch.bind("time"))
        self._default_state = self._state[:1].clone()
        self._qpos = torch.from_numpy(self._batch.bind("qpos"))
        self._qvel = torch.from_numpy(self._batch.bind("qvel"))
        self._ctrl = torch.from_numpy(self._batch.bind("ctrl"))
        self._warmstart = torch.from_numpy(self._batch.bind("qacc_warmstart"))
        first, end = self._column(self._qpos), self._column(self._warmstart) + self.model.nv
        self._kept = self._state[:, first:end]  # positions, velocities and warm start follow each other
        assert end - first == self.model.nq + 2 * self.model.nv + self.model.na, "another layout of MuJoCo's state"
        self._disabled = self._field("opt.disableflags")  # [N]
        self._sensors = torch.from_numpy(_readable(self._batch.bind("sensordata")))
        self._torque = torch.from_numpy(_readable(self._batch.bind("actuator_force")))
        self._state_pairs = tuple(zip(self.pose_vel(), self._engine_pose_vel()))
        self._refresh_state()

    def _refresh_state(self) -> None:
        for own, engines in self._state_pairs:
            own.copy_(engines)  # to float32

    def step(self, joint_targets: Tensor, num_substeps: int) -> None:
        self._ctrl.copy_(joint_targets)
        self._time.fill_(_START_TIME)
        with _quiet():
            if num_substeps > 1:
                with self._without_sensors():
                    self._batch.step(nstep=num_substeps - 1)
            self._batch.step(nstep=1)
        torch.lt(self._time, _START_TIME + (num_substeps - 0.5) * self.dt, out=self.diverged)
        self._refresh()

    @contextlib.contextmanager
    def _without_sensors(self) -> Iterator[None]:
        self._disabled.fill_(self.model.opt.disableflags | NO_SENSORS)
        try:
            yield
        finally:
            self._disabled.fill_(self.model.opt.disableflags)

    def reset(self, mask: Tensor, pose_vel: RobotPoseVel) -> None:
        ids = mask.nonzero().squeeze(-1)  # the engine lives on the CPU: nothing waits
        if not len(ids):
            return
        given = RobotPoseVel(*(x[ids] for x in pose_vel))
        self._state[ids] = self._default_state
        self._qpos[ids], self._qvel[ids] = self._in_engine_terms(given)
        for own, rows in zip(self.pose_vel(), given):
            own[ids] = rows
        self._batch.forward(ids.numpy(), stage=mujoco.mjtStage.mjSTAGE_VEL)
        self.foot_pos[ids] = self._sensed("_pos")[ids].float()
        self.foot_vel[ids] = self._sensed("_vel")[ids].float()
        self.joint_torque[ids] = 0.0
        self.contact_force[ids] = 0.0

    def set_root_velocity(self, mask: Tensor, lin_vel: Tensor, ang_vel: Tensor) -> None:
        ids = mask.nonzero().squeeze(-1)
        linear, angular = lin_vel[ids], ang_vel[ids]
        self._qvel[:, :6][ids] = torch.cat((linear, angular), dim=1).double()
        self.root_lin_vel[ids], self.root_ang_vel[ids] = linear, angular

    def _column(self, part: Tensor) -> int:
        """Return where in ``_state`` the columns begin that a view [N, ...] is of."""
        return (part.data_ptr() - self._state.data_ptr()) // self._state.element_size()

    def _state_parts(self) -> Tuple[Tensor, ...]:
        return (self._kept,)

    def _field(self, name: str) -> Tensor:
        return torch.from_numpy(self._batch.expand(name))

    def _update_constants(self) -> None:
        self._batch.set_const()


def _stop_timers() -> None:
    """Keep MuJoCo from reading a clock before and after each stage of a step, which takes 7 % of it.

    Its Python package sets a clock where C programs by default have none, and has no way to take it away. It is taken
    away for good, not around each step: other threads may be in MuJoCo meanwhile.
    """
    try:
        library = ctypes.CDLL(mujoco._functions.__file__)  # which is linked to MuJoCo
        clock = ctypes.c_void_p.in_dll(library, "mjcb_time")
    except (AttributeError, OSError, ValueError):
        return  # another system, or another MuJoCo: slower, and no worse
    if mujoco.get_mjcb_time() is None:
        clock.value = None


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
