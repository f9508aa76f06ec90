"""Physics on CPU cores: MuJoCo's batched engine (``mujoco.batch``, MuJoCo 4).

All worlds are stepped in native threads; states are read through views of the batch's memory.
"""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
from __future__ import annotations

import contextlib
import ctypes
import os
from typing import Iterator, Optional, Tuple, Union

import mujoco
import numpy as np
import torch
from mujoco import batch as mujoco_batch
from torch import Tensor

from rsl_rl.config.sim import SimConfig
from rsl_rl.sim.base import Drive, RobotPoseVel
from rsl_rl.sim.mujoco_robots import NO_SENSORS, MujocoRobots
from rsl_rl.utils.height_field import HeightField
from rsl_rl.utils.host import available_cpus
from rsl_rl.utils.mujoco_model import without_log

_START_TIME = 1.0
"""Time at the start of a step. MuJoCo resets a world that diverges to its default state and to time zero."""


class MujocoSim(MujocoRobots):
    """N worlds on CPU threads. A world that diverges is in its default state when ``step`` returns.

    The constructor stops the timers of ``MjData`` in this process, unless ``mujoco.set_mjcb_time`` was called.
    """

    engine = "mujoco"

    def __init__(
        self,
        model_path: Union[str, os.PathLike],
        num_envs: int,
        cfg: SimConfig,
        device: str = "cpu",
        ground: Optional[HeightField] = None,
    ):
        if torch.device(device).type != "cpu":
            raise ValueError(f"sim_device={device}: the backend 'mujoco' runs on the CPU; use --sim_device cpu")
        super().__init__(model_path, num_envs, cfg, torch.device("cpu"), ground)
        _stop_timers()
        # From 60 degrees of freedom on, MuJoCo takes sparse matrices. The sparse Newton solver of MuJoCo 4.0.0 can be
        # wrong (google-deepmind/mujoco#3767, benchmarks/sparse_solver.py).
        self.model.opt.jacobian = mujoco.mjtJacobian.mjJAC_DENSE
        self._batch = mujoco_batch.Batch(self.model, num_envs, cfg.num_threads or available_cpus())
        self._state = torch.from_numpy(self._batch.state)  # [N, everything] float64
        self._time = torch.from_numpy(self._batch.bind("time"))
        self._default_state = self._state[:1].clone()
        self._qpos = torch.from_numpy(self._batch.bind("qpos"))
        self._qvel = torch.from_numpy(self._batch.bind("qvel"))
        self._ctrl = torch.from_numpy(self._batch.bind("ctrl"))
        self._warmstart = torch.from_numpy(self._batch.bind("qacc_warmstart"))
        first, end = self._column(self._qpos), self._column(self._warmstart) + self.model.nv
        self._kept = self._state[:, first:end]  # positions, velocities and warm start are contiguous
        assert end - first == self.model.nq + 2 * self.model.nv + self.model.na, "MuJoCo's state has another layout"
        self._applied_force = torch.from_numpy(self._batch.bind("xfrc_applied"))
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
        self._write_force()
        self._time.fill_(_START_TIME)
        with without_log():
            if num_substeps > 1:
                with self._without_sensors():
                    self._batch.step(nstep=num_substeps - 1)
            self._batch.step(nstep=1)
        self._end_step(num_substeps)

    def step_each(self, drive: Drive, num_substeps: int) -> None:
        self._write_force()
        self._time.fill_(_START_TIME)
        with without_log():
            for i in range(num_substeps):
                self._ctrl.copy_(drive(i))
                with self._without_sensors() if i < num_substeps - 1 else contextlib.nullcontext():
                    self._batch.step(nstep=1)
                self._refresh_state()
        self._end_step(num_substeps)

    def _end_step(self, num_substeps: int) -> None:
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
        ids = mask.nonzero().squeeze(-1)  # on the CPU, without synchronisation
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
        self.foot_up[ids] = self._sensed("_up")[ids].float()
        self.joint_torque[ids] = 0.0
        self.contact_force[ids] = 0.0

    def set_root_velocity(self, mask: Tensor, lin_vel: Tensor, ang_vel: Tensor) -> None:
        ids = mask.nonzero().squeeze(-1)
        linear, angular = lin_vel[ids], ang_vel[ids]
        self._qvel[:, :6][ids] = torch.cat((linear, angular), dim=1).double()
        self.root_lin_vel[ids], self.root_ang_vel[ids] = linear, angular

    def _column(self, part: Tensor) -> int:
        """Return the first column in ``_state`` of a view [N, ...]."""
        return (part.data_ptr() - self._state.data_ptr()) // self._state.element_size()

    def _state_parts(self) -> Tuple[Tensor, ...]:
        return (self._kept,)

    def _field(self, name: str) -> Tensor:
        return torch.from_numpy(self._batch.expand(name))

    def _update_constants(self) -> None:
        self._batch.set_const()


def _stop_timers() -> None:
    """Stop MuJoCo from reading a clock before and after each stage of a step, which takes 7 % of the time.

    MuJoCo's Python package sets a clock and cannot remove it. It is removed permanently and not around each step,
    because other threads may run MuJoCo at the same time.
    """
    try:
        library = ctypes.CDLL(mujoco._functions.__file__)  # which is linked to MuJoCo
        clock = ctypes.c_void_p.in_dll(library, "mjcb_time")
    except (AttributeError, OSError, ValueError):
        return  # on another system or version of MuJoCo: only slower
    if mujoco.get_mjcb_time() is None:
        clock.value = None


def _readable(array: np.ndarray) -> np.ndarray:
    """Return a read-only array as writeable, because torch has no read-only tensors; it is never written to."""
    view = array.view()
    view.flags.writeable = True
    return view
