"""Measure the steps per second of a legged robot's environments, by engine and number of robots."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Tuple

from rich.console import Console
from rich.table import Table

from benchmarks.flags import require_counts
from benchmarks.pairing import Worker, alternate, ratios, spreads
from rsl_rl.cli.experiments import Experiments
from rsl_rl.sim import SIMS

BARE = "bare mujoco.batch"
"""Name of the loop without an environment."""

_DIFFERENT_ACTIONS = 32
"""Actions of all robots that are drawn in advance."""

Configuration = Tuple[str, str, int]
"""An engine, its device and a number of environments."""


@dataclass(frozen=True)
class Simulator:
    """Measure steps of a legged robot's environment: physics, rewards, observations and resets, without a learner."""

    task: str = "go2_flat"
    """Task with the robot, rewards and observations."""
    backends: Tuple[str, ...] = ("mujoco",)
    """Engines to compare."""
    devices: Tuple[str, ...] = ("cpu",)
    """Device of each engine, or one device for all."""
    num_envs: Tuple[int, ...] = (256, 1024, 4096)
    """Number of robots; one or several numbers."""
    seconds: float = 3.0
    """Length of each measurement [s]."""
    action_std: float = 0.1
    """Standard deviation of the random actions [action units]."""
    seed: int = 1
    """Seed of robots and actions."""
    repeats: int = 3
    """Number of measurements."""
    warm_up: int = 1
    """Measurements before those, which are not used."""
    bare: bool = False
    """Also measure a plain loop over mujoco.batch with the same model, without resets, rewards and observations, and
    print the speed of the environments relative to it."""
    bare_clock: bool = True
    """Let this loop read MuJoCo's clock, as by default in MuJoCo's package; the environments do not."""

    def __post_init__(self):
        require_counts(self, "num_envs", "repeats")
        if self.seconds <= 0:
            raise ValueError(f"--seconds {self.seconds}: give a positive time")
        if self.action_std < 0:
            raise ValueError(f"--action_std {self.action_std} must not be negative")
        if self.warm_up < 0:
            raise ValueError(f"--warm_up {self.warm_up}: give a whole number of at least 0")
        if not self.backends:
            raise ValueError(f"--backends is empty; give some of {', '.join(SIMS.names())}")
        if len(self.devices) not in (1, len(self.backends)):
            raise ValueError(
                f"--devices {' '.join(self.devices)}: give one, or one for each of the {len(self.backends)} backends"
            )


def measure(cfg: Simulator) -> Dict[str, Any]:
    """Measure the engines alternately; print a table and return its content."""
    env_cfg = Experiments().load(cfg.task)().env
    if not hasattr(env_cfg, "sim"):
        raise ValueError(f"--task {cfg.task} has no physics to step; take a legged robot's, such as go2_flat")
    for backend in cfg.backends:
        SIMS.load(backend)
    runs = _run(cfg)
    figures = {place: spreads(own) for place, own in runs.items()}
    control_dt = env_cfg.sim.control_dt
    table = Table(title=f"{cfg.task}, control period {control_dt:g} s, median (least-most) of {cfg.repeats}")
    share = ("share of the bare loop [%]",) if cfg.bare else ()
    for column in ("engine", "device", "robots", "environment steps/s", "times real time", "peak memory [MB]", *share):
        table.add_column(column, justify="left" if column in ("engine", "device") else "right")
    results: List[Dict[str, Any]] = []
    for (backend, device, num_envs), own in figures.items():
        steps, memory = own["env_steps_per_s"], own["peak_mb"]
        real_time = steps.times(control_dt)
        cells = [str(num_envs), steps.text(), f"{real_time.median:.0f}", f"{memory.median:.0f}"]
        kept = (
            ratios(runs[BARE, "cpu", num_envs], runs[backend, device, num_envs])["env_steps_per_s"]
            if cfg.bare
            else None
        )
        if kept is not None:
            cells.append(kept.times(100).text())
        table.add_row(backend, device, *cells)
        results.append(
            {
                "backend": backend,
                "device": device,
                "num_envs": num_envs,
                "env_steps_per_s": steps._asdict(),
                "times_real_time": real_time._asdict(),
                "peak_mb": memory._asdict(),
                **({} if kept is None else {"share_of_bare": kept._asdict()}),
            }
        )
    Console().print(table)
    return {"benchmark": "sim", "settings": dataclasses.asdict(cfg), "control_dt": control_dt, "results": results}


def _run(cfg: Simulator) -> Mapping[Configuration, List[Dict[str, Any]]]:
    """Start a process for each engine and number of environments, and run them alternately."""
    devices = cfg.devices * len(cfg.backends) if len(cfg.devices) == 1 else cfg.devices
    settings = {**dataclasses.asdict(cfg), "different_actions": _DIFFERENT_ACTIONS, "device": "cpu"}
    workers: Dict[Configuration, Worker] = {}
    try:
        for backend, device in dict.fromkeys(zip(cfg.backends, devices)):
            for num_envs in dict.fromkeys(cfg.num_envs):
                own = {**settings, "backend": backend, "device": device, "num_envs": num_envs}
                workers[backend, device, num_envs] = Worker("our_simulator.py", own)
        for num_envs in dict.fromkeys(cfg.num_envs if cfg.bare else ()):
            workers[BARE, "cpu", num_envs] = Worker("bare_simulator.py", {**settings, "num_envs": num_envs})
        return alternate(workers, cfg.repeats, cfg.warm_up)
    finally:
        for worker in workers.values():
            worker.stop()
