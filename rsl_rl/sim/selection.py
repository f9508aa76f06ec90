"""Choose the physics engine and its device."""

from __future__ import annotations

import importlib.util
import os
from typing import NamedTuple, Optional, Union

import torch

from rsl_rl.config.sim import SimConfig
from rsl_rl.sim import SIMS
from rsl_rl.sim.base import Sim
from rsl_rl.utils.height_field import HeightField

AUTO = "auto"

_SINGLE_INSTANCE = ("isaacgym",)
"""Engines that allow one simulation per process."""

_ON_GPU = {"mujoco_warp": "mujoco_warp", "isaacgym": "isaacgym"}
"""Engines that run on a GPU, and the package of each."""


class Backend(NamedTuple):
    """An engine and its device."""

    engine: str
    device: str

    def __str__(self) -> str:
        return f"{self.engine} on {self.device}"


def choose_backend(engine: str = AUTO, device: str = AUTO) -> Backend:
    """Resolve "auto": MuJoCo Warp if there is a GPU and the package, otherwise MuJoCo on the CPU."""
    gpu = torch.cuda.is_available()
    if device == AUTO:
        wanted = engine if engine != AUTO else "mujoco_warp"
        device = "cuda:0" if gpu and wanted in _ON_GPU and _installed(wanted) else "cpu"
    if engine == AUTO:
        engine = "mujoco" if device.startswith("cpu") else "mujoco_warp"
    return Backend(engine, device)


def is_available(backend: Backend) -> bool:
    """Return whether this machine has the engine and its device, and the engine allows several simulations, as
    evaluation and playback need."""
    return backend.engine not in _SINGLE_INSTANCE and _installed(backend.engine) and has_device(backend.device)


def has_device(device: str) -> bool:
    """Return whether this machine has a device."""
    wanted = torch.device(device)
    return wanted.type != "cuda" or (wanted.index or 0) < torch.cuda.device_count()


def _installed(engine: str) -> bool:
    return engine not in _ON_GPU or importlib.util.find_spec(_ON_GPU[engine]) is not None


def make_sim(
    model_path: Union[str, os.PathLike],
    num_envs: int,
    cfg: SimConfig,
    device: str,
    ground: Optional[HeightField] = None,
) -> Sim:
    """Build the simulation with the engine of a config; "auto" depends on the device. No ground is a plane."""
    return SIMS.load(choose_backend(cfg.backend, device).engine)(model_path, num_envs, cfg, device, ground)
