"""All that a GPU can be asked, in one command of a few minutes: correctness first, then speed, then a walking robot."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from rich.console import Console
from rich.table import Table

from benchmarks import learner, simulator, training
from benchmarks.flags import require_counts
from benchmarks.pairing import PEER_PACKAGES, Spread, Worker, spreads
from rsl_rl.cli.experiments import default_log_root

ROOT = Path(__file__).resolve().parent.parent

_PATIENCE = 300.0
"""Longest time of a test run, a training or a film [s]."""


@dataclass(frozen=True)
class Gpu:
    """Tests that need a GPU, then MuJoCo Warp, whole iterations, the learner, trainings to the gate, and a video.

    A part that fails is reported and the others are run; parts for which no time is left are skipped. The tables are
    repeated at the end, and everything is written to the folder.
    """

    folder: Path = Path("gpu_benchmark")
    """Folder of results.json, the output of each part and the video."""
    task: str = "go2_flat"
    """Task that is simulated and trained; it must have a gate."""
    device: str = "cuda:0"
    """Device that is measured; cpu, with few robots, to try the parts."""
    num_envs: Tuple[int, ...] = (1024, 2048, 4096, 8192, 16384)
    """Robots at once; one or several numbers."""
    train_envs: int = 4096
    """Robots of the trainings."""
    train_iterations: int = 60
    """Updates of each training."""
    seeds: Tuple[int, ...] = (1, 2, 3)
    """Of the trainings."""
    peer: Optional[Path] = None
    """Folder with another rsl_rl, as pip's --target makes it; its learner takes turns with ours."""
    repeats: int = 3
    """Number of measurements."""
    minutes: float = 9.5
    """Time after which no further part is started [min]."""
    parts: Tuple[str, ...] = ("tests", "iterations", "learner", "simulator", "trainings", "film")
    """Parts to run, in this order."""

    def __post_init__(self):
        unknown = [part for part in self.parts if part not in PARTS]
        if unknown or not self.parts:
            raise ValueError(f"--parts {' '.join(self.parts)}: take some of {', '.join(PARTS)}")
        require_counts(self, "num_envs", "train_envs", "train_iterations", "repeats")
        if self.minutes <= 0:
            raise ValueError(f"--minutes {self.minutes}: give a positive time")
        if self.peer is not None and not (self.peer / "rsl_rl").is_dir():
            raise ValueError(
                f"--peer {self.peer} holds no rsl_rl; fill it with: pip install --no-deps --target {self.peer} "
                f"{PEER_PACKAGES}"
            )


def measure(cfg: Gpu) -> Dict[str, Any]:
    """Run the parts one after the other; print tables, write and return their content."""
    from rsl_rl.utils.seeding import require_device  # imports torch, which --help has no time for

    require_device("device", cfg.device)
    cfg.folder.mkdir(parents=True, exist_ok=True)
    result: Dict[str, Any] = {"benchmark": "gpu", "settings": _plain(cfg), "machine": _machine(cfg.device)}
    began = time.monotonic()
    for name in cfg.parts:
        if time.monotonic() - began > 60 * cfg.minutes:
            result[name] = {"left_out": "no time was left"}
            continue
        print(f"{name}: begins after {time.monotonic() - began:.0f} s", flush=True)
        try:
            result[name] = PARTS[name](cfg)
        except (RuntimeError, ValueError, OSError, ImportError, subprocess.SubprocessError) as error:
            result[name] = {"failed": str(error)}
        if result[name].get("failed"):
            result["failed"] = True
            print(f"{name}: failed: {result[name]['failed']}", flush=True)
        (cfg.folder / "results.json").write_text(json.dumps(result, indent=1) + "\n")
    result["seconds"] = time.monotonic() - began
    print(f"written to {cfg.folder / 'results.json'} after {result['seconds']:.0f} s")
    return result


def _plain(cfg: Gpu) -> Dict[str, Any]:
    values = dataclasses.asdict(cfg)
    return {name: str(value) if isinstance(value, Path) else value for name, value in values.items()}


def _machine(device: str) -> Dict[str, str]:
    import torch

    name = "CPU" if device == "cpu" else torch.cuda.get_device_name(device)
    return {"device": name, "torch": torch.__version__, "cuda": str(torch.version.cuda)}


def _tests(cfg: Gpu) -> Dict[str, Any]:
    """Run the tests that need a GPU: parity with the CPU engine, synchronisations, recorded graphs."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider", "--tb=short"]
    command += ["--continue-on-collection-errors"]  # of files that need packages which are not installed
    output = _run(command, cfg.folder / "tests.txt", fine=(0, 1))  # a failed test is a result
    print(output.strip().splitlines()[-1], flush=True)
    return {kind: int(number) for number, kind in re.findall(r"(\d+) (passed|failed|skipped|error)", output)}


def _iterations(cfg: Gpu) -> Dict[str, Any]:
    """Time whole iterations of the training, and the physics of the same steps alone."""
    table = Table(title=f"iterations of {cfg.task} on {cfg.device}, median of {cfg.repeats}")
    columns = {
        "steps/s": ("steps_per_s", 1.0),
        "collect [ms]": ("collect", 1e3),
        "learn [ms]": ("learn", 1e3),
        "physics [ms]": ("physics", 1e3),
        "not physics [%]": ("outside_physics", 100.0),
        "waits": ("waits", 1.0),
        "memory [MB]": ("peak_mb", 1.0),
    }
    for column in ("robots", *columns):
        table.add_column(column, justify="right")
    results: List[Dict[str, Any]] = []
    for num_envs in cfg.num_envs:
        figures = _repeat("our_iteration.py", cfg, num_envs)
        cells = [f"{figures[name].median * scale:,.1f}" if name in figures else "-" for name, scale in columns.values()]
        table.add_row(str(num_envs), *cells)
        results.append({"num_envs": num_envs, **{name: spread._asdict() for name, spread in figures.items()}})
    Console().print(table)
    return {"results": results}


def _repeat(script: str, cfg: Gpu, num_envs: int) -> Mapping[str, Spread]:
    worker = Worker(script, {"task": cfg.task, "num_envs": num_envs, "device": cfg.device, "seed": 1})
    try:
        worker.run()  # records the graphs
        return spreads([worker.run() for _ in range(cfg.repeats)])
    finally:
        worker.stop()


def _simulator(cfg: Gpu) -> Dict[str, Any]:
    backends, devices = ("mujoco_warp",), (cfg.device,)
    return simulator.measure(
        simulator.Simulator(
            task=cfg.task, backends=backends, devices=devices, num_envs=cfg.num_envs, seconds=2.0, repeats=cfg.repeats
        )
    )


def _learner(cfg: Gpu) -> Dict[str, Any]:
    """Measure the learner in its standard shapes, without memory at every number of robots and with one at the
    trainings' number."""
    common = {"device": cfg.device, "cuda_graphs": cfg.device != "cpu", "peer": cfg.peer, "repeats": cfg.repeats}
    shapes: Sequence[Dict[str, Any]] = (
        {"num_envs": cfg.num_envs},
        {"num_envs": (cfg.train_envs,), "bfloat16": cfg.device != "cpu"},
        {"num_envs": (cfg.train_envs,), "policy": "lstm", "hidden_dims": (256, 128)},
    )
    return {"results": [learner.measure(learner.Learner(warm_up=2, **common, **shape)) for shape in shapes]}


def _training_flags(cfg: Gpu) -> Tuple[str, ...]:
    flags = (
        f"num_envs={cfg.train_envs}",
        f"max_iterations={cfg.train_iterations}",
        "sim=mujoco_warp",
        f"sim_device={cfg.device}",
        f"rl_device={cfg.device}",
    )
    return flags if cfg.device == "cpu" else (*flags, "acceleration.cuda_graphs=True")


def _trainings(cfg: Gpu) -> Dict[str, Any]:
    overrides = _training_flags(cfg)
    return training.measure(training.Training(task=cfg.task, seeds=cfg.seeds, every=5, overrides=overrides))


def _film(cfg: Gpu) -> Dict[str, Any]:
    """Train again and render a video of the result."""
    experiment = f"benchmark_{uuid.uuid4().hex[:8]}"
    name = ["--task", cfg.task, "--experiment_name", experiment]
    try:
        flags = training.as_arguments(_training_flags(cfg))
        _run([sys.executable, "-m", "rsl_rl", "train", *name, *flags], cfg.folder / "train.txt")
        told = _run([sys.executable, "-m", "rsl_rl", "play", *name], cfg.folder / "play.txt")
        (exported,) = (default_log_root() / experiment).glob("*/exported")
        shutil.copytree(exported, cfg.folder / "exported", dirs_exist_ok=True)
    finally:
        shutil.rmtree(default_log_root() / experiment, ignore_errors=True)
    return {"told": told.splitlines()}


def _run(command: Sequence[str], log: Path, fine: Sequence[int] = (0,)) -> str:
    """Run a command in the folder of the package and return what it prints, which also goes to a file."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=_PATIENCE)
    log.write_text(done.stdout + done.stderr)
    if done.returncode not in fine:
        raise RuntimeError(f"{' '.join(command[1:4])} ended with code {done.returncode}; see {log}")
    return done.stdout


PARTS: Mapping[str, Callable[[Gpu], Dict[str, Any]]] = {
    "tests": _tests,
    "iterations": _iterations,
    "learner": _learner,
    "simulator": _simulator,
    "trainings": _trainings,
    "film": _film,
}
