"""Which engine, and on which device: what "auto" stands for on this machine."""

from __future__ import annotations

import importlib.util
import os
from typing import NamedTuple, Union

import torch

from rsl_rl.config.sim import SimConfig
from rsl_rl.sim import SIMS
from rsl_rl.sim.base import Sim

AUTO = "auto"

_ALONE = ("isaacgym",)
"""Engines that hold one simulation per process."""

_ON_GPU = {"mujoco_warp": "mujoco_warp", "isaacgym": "isaacgym"}
"""Engines that compute on a GPU, and the package that each is made of."""


class Place(NamedTuple):
    """An engine and its device."""

    backend: str
    device: str

    def __str__(self) -> str:
        return f"{self.backend} on {self.device}"


def choose(backend: str = AUTO, device: str = AUTO) -> Place:
    """Return the best engine and device there are, as far as "auto" leaves the choice: MuJoCo Warp on a GPU, or MuJoCo
    on the CPU where there is no GPU or no Warp."""
    gpu = torch.cuda.is_available()
    if device == AUTO:
        wanted = backend if backend != AUTO else "mujoco_warp"
        device = "cuda:0" if gpu and wanted in _ON_GPU and _installed(wanted) else "cpu"
    if backend == AUTO:
        backend = "mujoco" if device.startswith("cpu") else "mujoco_warp"
    return Place(backend, device)


def serves_here(place: Place) -> bool:
    """Tell whether this machine has an engine's package and its device, and whether the engine can hold the several
    simulations that judging and showing a policy take."""
    return place.backend not in _ALONE and _installed(place.backend) and has_device(place.device)


def has_device(device: str) -> bool:
    """Tell whether this machine has a device."""
    wanted = torch.device(device)
    return wanted.type != "cuda" or (wanted.index or 0) < torch.cuda.device_count()


def _installed(backend: str) -> bool:
    return backend not in _ON_GPU or importlib.util.find_spec(_ON_GPU[backend]) is not None


def make_sim(model_path: Union[str, os.PathLike], num_envs: int, cfg: SimConfig, device: str) -> Sim:
    """Build robots in the engine that a config names, or that fits the device."""
    return SIMS.load(choose(cfg.backend, device).backend)(model_path, num_envs, cfg, device)
