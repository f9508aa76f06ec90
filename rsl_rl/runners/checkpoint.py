"""Checkpoint files: written whole or not at all, read without executing anything."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import re
from pathlib import Path
from typing import Any, Dict, Optional, Union

import numpy as np
import torch

FORMAT = 1
"""Version of the layout; raised when a reader of today could not understand it."""


class CheckpointError(ValueError):
    """A checkpoint that cannot be used; the message says why and what to do."""


def write_checkpoint(path: Path, state: Dict[str, Any]) -> None:
    """Save a dict of tensors and plain values beside ``path`` and move it there, so that a crash leaves the old file
    whole."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink() if temporary.exists() else None


def read_checkpoint(path: Path, device: Union[str, torch.device] = "cpu") -> Dict[str, Any]:
    """Load a checkpoint dict; anything that is not one is a :class:`CheckpointError`."""
    if not path.is_file():
        raise CheckpointError(f"there is no checkpoint {path}")
    try:
        state = torch.load(path, map_location=device, weights_only=True)
    except Exception as error:  # a damaged file can make the reader stumble over anything
        reason = " ".join(str(error).split())[:160]
        raise CheckpointError(
            f"{path} is damaged or no checkpoint of weights alone ({reason}); take another one"
        ) from error
    if not isinstance(state, dict) or "model_state_dict" not in state:
        keys = ", ".join(sorted(map(str, state))) if isinstance(state, dict) else type(state).__name__
        raise CheckpointError(f"{path} is no policy checkpoint: it holds {keys or 'nothing'} and no model_state_dict")
    version = state.get("format", 0)
    if not isinstance(version, int) or version > FORMAT:
        raise CheckpointError(f"{path} has format {version}, and this version reads up to {FORMAT}; update rsl-rl-lib")
    return state


def iteration_of(path: Path) -> int:
    """Return the iteration in a name such as ``model_150.pt``, or -1 for other names."""
    match = re.fullmatch(r"model_(\d+)\.pt", path.name)
    return int(match.group(1)) if match else -1


def find_checkpoint(run: Path, iteration: int = -1) -> Path:
    """Return the checkpoint of an iteration in a run folder, -1 for the newest; none is a :class:`CheckpointError`."""
    found = sorted((path for path in run.glob("model_*.pt") if iteration_of(path) >= 0), key=iteration_of)
    if not found:
        raise CheckpointError(f"{run} holds no checkpoint model_<iteration>.pt")
    if iteration == -1:
        return found[-1]
    for path in found:
        if iteration_of(path) == iteration:
            return path
    known = ", ".join(str(iteration_of(path)) for path in found[-10:])
    raise CheckpointError(f"{run} has no checkpoint of iteration {iteration}; it has {known}")


def find_run(experiment: Path, name: str = "-1") -> Path:
    """Return a run's folder in an experiment's: by its name, or -1 for the newest that holds a checkpoint."""
    if name != "-1":
        run = Path(name) if Path(name).is_dir() else experiment / name
        if not run.is_dir():
            raise CheckpointError(f"there is no run {name} in {experiment}; it has {_names(experiment)}")
        return run
    runs = sorted(path.parent for path in experiment.glob("*/model_*.pt"))
    if not runs:
        raise CheckpointError(f"{experiment} holds no run with a checkpoint; train one first")
    return runs[-1]


def supersede_after(run: Path, iteration: int) -> None:
    """Move the checkpoints after an iteration to ``superseded/``: training goes on from that one, and they are another
    branch."""
    for path in run.glob("model_*.pt"):
        if iteration_of(path) > iteration:
            (run / "superseded").mkdir(exist_ok=True)
            os.replace(path, run / "superseded" / path.name)


def make_run_folder(experiment: Path, name: str) -> Path:
    """Create a new folder for a run and return it; where the name is taken, with a number behind it."""
    for number in itertools.count(1):
        folder = experiment / (name if number == 1 else f"{name}_{number}")
        with contextlib.suppress(FileExistsError):
            folder.mkdir(parents=True)
            return folder
    raise AssertionError("unreachable")


def _names(folder: Path) -> str:
    names = sorted(path.name for path in folder.glob("*") if path.is_dir())
    return ", ".join(names[-5:]) if names else "none"


def random_states() -> Dict[str, Any]:
    """Return the states of the process's generators: Python, numpy, torch on the CPU and on every CUDA device."""
    version, internal, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state()  # the legacy generator that libraries draw from
    return {
        "python": [version, list(internal), gauss],
        "numpy": [name, torch.from_numpy(np.asarray(keys).astype(np.int64)), position, has_gauss, cached],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def restore_random_states(states: Optional[Dict[str, Any]]) -> None:
    """Undo :func:`random_states`; None, from another trainer's checkpoint, changes nothing."""
    if not states:
        return
    version, internal, gauss = states["python"]
    random.setstate((version, tuple(internal), gauss))
    name, keys, position, has_gauss, cached = states["numpy"]
    np.random.set_state((name, keys.cpu().numpy().astype(np.uint32), position, has_gauss, cached))
    torch.set_rng_state(states["torch"].cpu())
    if torch.cuda.is_available() and len(states["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all([state.cpu() for state in states["cuda"]])
