"""Measure the time of a training until its policy passes the gate of its task."""

from __future__ import annotations

import dataclasses
import json
import math
import shlex
import shutil
import statistics
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from rich.console import Console
from rich.table import Table

from benchmarks.flags import require_counts
from rsl_rl.cli.experiments import Experiments, default_log_root
from rsl_rl.utils.config_io import from_dict, read_yaml


@dataclass(frozen=True)
class Training:
    """Run scripts/train.py for each seed, and find the first checkpoint that passes the gate.

    The checkpoints of a run are evaluated as in scripts/evaluate.py, in order, until one passes. The time to the gate
    is that of collecting and learning up to that checkpoint. Runs are removed after their evaluation.
    """

    task: str = "go2_flat"
    """Task to train; it must have a gate."""
    seeds: Tuple[int, ...] = (1, 2, 3)
    """Seeds of the trainings, which run one after the other."""
    every: int = 10
    """Updates between two checkpoints."""
    num_robots: int = 256
    """Number of robots in an evaluation."""
    seconds: float = 20.0
    """Length of an evaluation [s]."""
    overrides: Tuple[str, ...] = ()
    """Further settings for train.py, as FIELD=VALUE: num_envs=256 "policy.actor_hidden_dims=64 32"."""

    def __post_init__(self):
        require_counts(self, "every", "num_robots")
        if not self.seeds:
            raise ValueError("--seeds is empty; give at least one number")
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"--seeds {' '.join(map(str, self.seeds))} names a seed twice")
        for override in self.overrides:
            name, equals, _ = override.partition("=")
            if not (name and equals):
                raise ValueError(f"--overrides {override}: write FIELD=VALUE, such as num_envs=256")


class Run(NamedTuple):
    """Result of a training; None for values of a gate that was not reached."""

    seed: int
    iteration: Optional[int]  # of the first checkpoint that passes
    seconds_to_gate: Optional[float]  # of collecting and learning
    steps_to_gate: Optional[int]
    wall_s: float  # of train.py, start and checkpoints included
    env_steps: int
    steps_per_s: float  # of collecting and learning


class Estimate(NamedTuple):
    """A mean with its 95 % confidence interval, which needs at least two values."""

    mean: Optional[float]
    low: Optional[float]
    high: Optional[float]


class Progress(NamedTuple):
    """Time and environment steps of a training."""

    seconds: float  # of collecting and learning
    env_steps: int


def measure(cfg: Training) -> Dict[str, Any]:
    """Train and evaluate one seed after the other; print a table and return its content."""
    _require_gate(cfg)
    experiment = f"benchmark_{uuid.uuid4().hex[:8]}"
    try:
        runs = [_measure(cfg, seed, experiment) for seed in cfg.seeds]
    finally:
        shutil.rmtree(default_log_root() / experiment, ignore_errors=True)
    means = {
        name: estimate([value for value in (getattr(run, name) for run in runs) if value is not None])
        for name in ("seconds_to_gate", "steps_to_gate", "wall_s", "steps_per_s")
    }
    reached = sum(run.iteration is not None for run in runs)
    Console().print(_table(f"{cfg.task}: {reached} of {len(runs)} trainings reached the gate", runs, means))
    return {
        "benchmark": "train",
        "settings": dataclasses.asdict(cfg),
        "runs": [run._asdict() for run in runs],
        "reached": reached,
        "means": {name: mean._asdict() for name, mean in means.items()},
    }


def _require_gate(cfg: Training) -> None:
    """Raise a ValueError for a task that cannot be evaluated, before the training."""
    from rsl_rl.evaluation.conditions import for_evaluation  # imports torch, which --help has no time for

    task: Any = Experiments().load(cfg.task)().env
    env_cfg = for_evaluation(task, cfg.num_robots, cfg.seconds)
    if not env_cfg.gate:
        raise ValueError(f"--task {cfg.task} has no gate to reach; give its config's env.gate some limits")


def _measure(cfg: Training, seed: int, experiment: str) -> Run:
    print(f"seed {seed}: training", flush=True)
    began = time.perf_counter()
    folder = _train(cfg, seed, experiment)
    wall_s = time.perf_counter() - began
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    whole = progress(records, math.inf)
    print(f"seed {seed}: trained for {whole.env_steps} environment steps in {wall_s:.1f} s", flush=True)

    def passes(iteration: int) -> bool:
        misses = _gate_misses(cfg, folder, iteration)
        print(f"seed {seed}: iteration {iteration} {'misses ' + '; '.join(misses) if misses else 'passes'}", flush=True)
        return not misses

    first = first_pass(_checkpoints(folder), passes)
    to_gate = None if first is None else progress(records, first)
    return Run(
        seed=seed,
        iteration=first,
        seconds_to_gate=to_gate and to_gate.seconds,
        steps_to_gate=to_gate and to_gate.env_steps,
        wall_s=wall_s,
        env_steps=whole.env_steps,
        steps_per_s=whole.env_steps / whole.seconds,
    )


def _train(cfg: Training, seed: int, experiment: str) -> Path:
    """Run train.py and return the folder of the run; invalid flags are a ValueError."""
    flags = {"seed": seed, "save_interval": cfg.every, "experiment_name": experiment, "run_name": f"seed_{seed}"}
    command = [sys.executable, "-m", "rsl_rl", "train", "--task", cfg.task, *as_arguments(cfg.overrides)]
    for name, value in flags.items():
        command += [f"--{name}", str(value)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        message = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise (ValueError if done.returncode == 2 else RuntimeError)(message)
    (folder,) = (default_log_root() / experiment).glob(f"*_seed_{seed}")
    return folder


def as_arguments(overrides: Sequence[str]) -> List[str]:
    """Convert FIELD=VALUE, with a value of one or several words, to arguments of a command line; True and False become
    flags."""
    arguments: List[str] = []
    for override in overrides:
        name, _, value = override.partition("=")
        section, dot, last = name.rpartition(".")
        switches = {"True": [f"--{name}"], "False": [f"--{section}{dot}no_{last}"]}
        arguments += switches.get(value, [f"--{name}", *shlex.split(value)])
    return arguments


def _checkpoints(folder: Path) -> List[int]:
    from rsl_rl.utils.checkpoints import checkpoints_of, iteration_of

    return [iteration_of(path) for path in checkpoints_of(folder) if iteration_of(path) > 0]  # 0 has learned nothing


def _gate_misses(cfg: Training, folder: Path, iteration: int) -> List[str]:
    """Evaluate a checkpoint as scripts/evaluate.py does, with the config of its run."""
    from rsl_rl.evaluation.conditions import for_evaluation
    from rsl_rl.evaluation.evaluate import evaluate, unmet_criteria
    from rsl_rl.runners.loading import load_policy

    trained: Any = from_dict(Experiments().load(cfg.task), read_yaml(folder / "config.yaml"))
    env_cfg = for_evaluation(trained.env, cfg.num_robots, cfg.seconds)
    env = env_cfg.build(trained.sim_device, seed=trained.seed + 1000)
    result = evaluate(env, load_policy(trained, env, folder, iteration).policy, cfg.seconds)
    return unmet_criteria([result], env_cfg.gate)


def first_pass(iterations: Sequence[int], passes: Callable[[int], bool]) -> Optional[int]:
    """Return the first iteration that passes, or None."""
    return next((iteration for iteration in iterations if passes(iteration)), None)


def progress(records: Sequence[Mapping[str, Any]], iteration: float) -> Progress:
    """Return time and environment steps up to an iteration, from the records of metrics.jsonl."""
    past = [record for record in records if record["iteration"] <= iteration]
    return Progress(sum(record["collect_s"] + record["learn_s"] for record in past), past[-1]["env_steps"])


_STUDENT_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""97.5 % quantiles of Student's distribution for 1 to 30 degrees of freedom."""


def estimate(values: Sequence[float]) -> Estimate:
    """Return the mean and its Student interval; beyond 30 degrees of freedom the interval is slightly too wide."""
    if not values:
        return Estimate(None, None, None)
    mean = statistics.mean(values)
    if len(values) == 1:
        return Estimate(mean, None, None)
    quantile = _STUDENT_T[min(len(values) - 1, len(_STUDENT_T)) - 1]
    half = quantile * statistics.stdev(values) / math.sqrt(len(values))
    return Estimate(mean, mean - half, mean + half)


def _table(title: str, runs: Sequence[Run], means: Mapping[str, Estimate]) -> Table:
    table = Table(title=title)
    for column in ("", "iteration", "time to gate [s]", "steps to gate", "train.py [s]", "steps/s"):
        table.add_column(column, justify="right" if column else "left")
    for run in runs:
        iteration = "not reached" if run.iteration is None else str(run.iteration)
        table.add_row(f"seed {run.seed}", iteration, *(_text(name, getattr(run, name)) for name in means))
    table.add_section()
    for field, label in (("mean", "mean"), ("low", "95 % from"), ("high", "to")):
        table.add_row(label, "", *(_text(name, getattr(mean, field)) for name, mean in means.items()))
    return table


def _text(name: str, value: Optional[float]) -> str:
    return "-" if value is None else f"{value:.1f}" if name.startswith(("seconds", "wall")) else f"{value:,.0f}"
