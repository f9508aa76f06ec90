"""Engine and devices of a command line: what "auto" means, and what a run's config becomes on another machine."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
import importlib.util
import os
from typing import TYPE_CHECKING, Any, Tuple

from rsl_rl.config.experiment import TrainConfig

if TYPE_CHECKING:
    from rsl_rl.sim.base import Backend


def set_omp_spincount() -> None:
    """Limit the active waiting of OpenMP threads to microseconds, unless the user has set it.

    Otherwise torch's idle threads use the cores that the physics needs. Call it before torch is imported.
    """
    if not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & set(os.environ):
        os.environ["GOMP_SPINCOUNT"] = "50000"


def import_isaac_gym(early: argparse.Namespace, from_run: bool) -> None:
    """Import Isaac Gym if it is installed and may be needed: it cannot be imported after torch."""
    may_be_needed = early.sim_backend == "isaacgym" or from_run or early.resume
    if may_be_needed and not early.help and importlib.util.find_spec("isaacgym") is not None:
        with contextlib.suppress(ImportError):  # its backend reports the error if it is needed
            importlib.import_module("isaacgym")


def fallback_to_available(cfg: TrainConfig, early: argparse.Namespace) -> Tuple[TrainConfig, str]:
    """Set engine and devices of a run to "auto" if this machine does not have them; also return their names then.

    With --sim, only the devices become "auto".
    """
    from rsl_rl.sim.base import AUTO, has_device, is_available

    backend, unavailable = chosen_backend(cfg), ""
    if not (is_available(backend) and has_device(resolve_auto(cfg).rl_device)):
        cfg, unavailable = _with_backend(cfg, AUTO), str(backend)
    elif early.sim_backend is None:
        return cfg, unavailable
    return dataclasses.replace(cfg, sim_device=AUTO, rl_device=AUTO), unavailable


def chosen_backend(cfg: TrainConfig) -> Backend:
    """Return engine and device of a config, with "auto" resolved."""
    from rsl_rl.sim.base import choose_backend

    return choose_backend(_engine_name(cfg), cfg.sim_device)


def resolve_auto(cfg: TrainConfig) -> TrainConfig:
    """Replace every "auto" by the best choice on this machine."""
    from rsl_rl.sim.base import AUTO

    backend = chosen_backend(cfg)
    rl_device = backend.device if cfg.rl_device == AUTO else cfg.rl_device
    return _with_backend(dataclasses.replace(cfg, sim_device=backend.device, rl_device=rl_device), backend.engine)


def _engine_name(cfg: TrainConfig) -> str:
    """Return the engine of a config; a task without physics uses the device of MuJoCo."""
    sim = getattr(cfg.env, "sim", None)
    return "mujoco" if sim is None else sim.backend


def _with_backend(cfg: TrainConfig, backend: str) -> TrainConfig:
    sim = getattr(cfg.env, "sim", None)
    if sim is None:
        return cfg
    env: Any = dataclasses.replace(cfg.env, sim=dataclasses.replace(sim, backend=backend))  # type: ignore[call-arg]
    return dataclasses.replace(cfg, env=env)
