"""Worlds of MuJoCo's batched engine, on the CPU. States have float64; equal seeds give equal bits."""

# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import contextlib
import ctypes
from typing import Any, Iterator, Optional, Tuple

import mujoco
import numpy as np
import torch
from mujoco import batch as mujoco_batch
from torch import Tensor

from gymapi_mujoco.worlds import Worlds

_START_TIME = 1.0
"""Time at the start of a step. MuJoCo resets a world that diverges, and sets its time to zero."""


WRONG_SPARSE_SOLVER = "4.0.0"
"""Version of MuJoCo whose Newton solver can be wrong with sparse matrices (google-deepmind/mujoco#3767), which MuJoCo
takes for environments of 60 degrees of freedom and more."""


class CpuWorlds(Worlds):
    """All worlds in one ``mujoco.batch.Batch``."""

    dtype = torch.float64

    def __init__(self, model: mujoco.MjModel, num: int, threads: int):
        super().__init__(model, num, torch.device("cpu"))
        _stop_timers()
        if mujoco.mj_versionString() == WRONG_SPARSE_SOLVER:
            model.opt.jacobian = mujoco.mjtJacobian.mjJAC_DENSE
        self._batch = mujoco_batch.Batch(model, num, threads)
        self._time = self.state("time")

    def state(self, name: str) -> Tensor:
        return torch.from_numpy(self._batch.bind(name))

    def result(self, name: str) -> Tensor:
        view = self._batch.bind(name).view()
        view.flags.writeable = True  # torch has no read-only tensors; it is never written to
        return torch.from_numpy(view)

    def values(self, name: str) -> Tensor:
        if self._batch.expanded(name) is not None:
            return self.field(name)
        return torch.from_numpy(np.array(getattr(self.model, name))[None])

    def field(self, name: str) -> Tensor:
        return torch.from_numpy(self._batch.expand(name))

    def update_constants(self) -> None:
        self._batch.set_const()

    def step(self, substeps: int) -> Optional[Tensor]:
        self._time.fill_(_START_TIME)
        with _quiet():
            self._batch.step(nstep=substeps)
        if self._time.numpy().min(initial=np.inf) >= _START_TIME + 1e-9:
            return None
        return self._time < _START_TIME + (substeps - 0.5) * self.model.opt.timestep

    def forward(self) -> None:
        self._batch.forward(stage=mujoco.mjtStage.mjSTAGE_VEL)

    def ray(self, start: np.ndarray, direction: np.ndarray, worlds: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        distance, geom = self._batch.ray(start, direction, ids=worlds)
        return distance, geom

    def get_data(self, world: int, data: Any) -> None:
        self._batch.get_data(world, data)

    def get_model(self, world: int) -> Any:
        return self._batch.get_model(world)


def _stop_timers() -> None:
    """Stop MuJoCo from reading a clock before and after each stage of a step, which takes 7 % of the time.

    ``MjData.timer`` then has no durations in this process. A clock that the user has set stays.
    """
    if mujoco.get_mjcb_time() is not None:
        return
    with contextlib.suppress(AttributeError, OSError, ValueError):  # another system or version: only slower
        engine = ctypes.CDLL(mujoco._functions.__file__)
        ctypes.c_void_p.in_dll(engine, "mjcb_time").value = None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Stop MuJoCo from writing a log file for each world that diverges."""
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)
