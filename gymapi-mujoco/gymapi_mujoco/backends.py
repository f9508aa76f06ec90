"""Which engine simulates, on which device, with how many threads.

MuJoCo Warp if the client asks for a GPU that torch and Warp can use, MuJoCo's batched engine on the CPU otherwise. The
environment variable ``GYMAPI_MUJOCO_ENGINE`` decides instead: ``cpu``, or ``warp``, which without a GPU is Warp's CPU
device.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import math
import os
from typing import Any, NamedTuple

import mujoco
import torch

import gymapi_mujoco
from gymapi_mujoco import ENGINE_VARIABLE, ENGINES, cuda_names
from gymapi_mujoco.worlds import Worlds

INSTALL = "pip install mujoco-warp, or 'gymapi-mujoco[warp]'"


class Backend(NamedTuple):
    """An engine, its device, and the threads of the engine on the CPU."""

    engine: str  # cpu, warp
    device: str
    threads: int

    def make(self, model: Any, num: int) -> Worlds:
        """Make the worlds of a ``mujoco.MjModel``."""
        if self.engine == "warp":
            from gymapi_mujoco.worlds_warp import WarpWorlds

            return WarpWorlds(model, num, torch.device(self.device))
        from gymapi_mujoco.worlds_cpu import CpuWorlds

        return CpuWorlds(model, num, self.threads)

    def __str__(self) -> str:
        """Return the line that says what runs."""
        if self.engine == "cpu":
            what = f"MuJoCo {mujoco.__version__} on the CPU, {self.threads} thread{'s' * (self.threads > 1)}"
        elif self.device == "cpu":
            what = f"MuJoCo Warp {importlib.metadata.version('mujoco-warp')} on Warp's CPU device, one thread"
        else:
            name = torch.cuda.get_device_name(self.device)
            what = f"MuJoCo Warp {importlib.metadata.version('mujoco-warp')} on {self.device} ({name})"
        return f"isaacgym: {what}, through gymapi-mujoco {gymapi_mujoco.__version__}; not NVIDIA's engine"


def choose(compute_device: int, use_gpu_pipeline: bool, threads: int) -> Backend:
    """Choose by what a client passes to ``create_sim``."""
    wanted = wanted_engine()
    if use_gpu_pipeline and compute_device >= 0 and gpu_is_usable():
        if compute_device >= torch.cuda.device_count():
            raise ValueError(
                f"create_sim: compute device {compute_device}; torch sees {torch.cuda.device_count()} CUDA devices, "
                "numbered from 0"
            )
        return Backend("warp", f"cuda:{compute_device}", threads)
    if wanted == "warp":
        if not warp_is_installed():
            raise ModuleNotFoundError(f"{ENGINE_VARIABLE}=warp needs MuJoCo Warp; {INSTALL}", name="mujoco_warp")
        return Backend("warp", "cpu", threads)
    return Backend("cpu", "cpu", threads)


def wanted_engine() -> str:
    """Return the value of ``GYMAPI_MUJOCO_ENGINE``; another one is a ValueError."""
    wanted = os.environ.get(ENGINE_VARIABLE) or "auto"
    if wanted not in ENGINES:
        raise ValueError(f"{ENGINE_VARIABLE}={wanted}: give one of {', '.join(ENGINES)}")
    return wanted


def warp_is_installed() -> bool:
    return importlib.util.find_spec("mujoco_warp") is not None


def gpu_is_usable() -> bool:
    """Return whether a client that asks for a GPU gets one."""
    if wanted_engine() == "cpu" or cuda_names.are_cpu() or not torch.cuda.is_available() or not warp_is_installed():
        return False
    return _warp_sees_a_gpu()


def _warp_sees_a_gpu() -> bool:
    import warp

    return warp.is_cuda_available()


def usable_threads(wanted: int) -> int:
    """Return the number of threads: ``GYMAPI_MUJOCO_THREADS``, or the wanted number, at most the CPUs of the process.

    Zero stands for all of them. A container's quota (cgroups version 2) limits the CPUs.
    """
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        with open("/sys/fs/cgroup/cpu.max") as file:
            quota, period = file.read().split()
        cpus = max(1, min(cpus, math.floor(int(quota) / int(period))))
    except (OSError, ValueError):
        pass
    given = os.environ.get("GYMAPI_MUJOCO_THREADS", "")
    if given and not given.isdecimal():
        raise ValueError(f"GYMAPI_MUJOCO_THREADS={given}: give a number of threads")
    wanted = int(given or wanted)
    return min(cpus, wanted) if wanted > 0 else cpus
