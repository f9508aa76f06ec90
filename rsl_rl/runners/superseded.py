"""What an earlier training left in a run folder after the iteration from which another one goes on."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import re
import shutil
from pathlib import Path
from typing import List, Optional, Sequence, Tuple

from rsl_rl.utils.checkpoints import (
    CheckpointError,
    best_iteration,
    best_path,
    checkpoints_of,
    iteration_of,
    later_configs,
)
from rsl_rl.utils.files import atomic_write

METRICS = "metrics.jsonl"


def supersede_after(run: Path, iteration: int) -> Optional[Path]:
    """Move what a run has after an iteration to a new folder ``superseded/after_<iteration>``, and return the folder;
    None where there is nothing after it.

    These are checkpoints, the best if it is one of them, films, configs of later starts, and lines of the metrics; the
    event files of TensorBoard, which hold the earlier iterations too, are copied.
    """
    late = [path for path in checkpoints_of(run) if iteration_of(path) > iteration]
    late += [path for start, path in later_configs(run).items() if start > iteration]
    late += [path for path in (run / "videos").glob("model_*") if _iteration_of_film(path) > iteration]
    with contextlib.suppress(CheckpointError):  # there is none, or a damaged one, which the next will replace
        if best_iteration(run) > iteration:
            late.append(best_path(run))
    kept, dropped = _split_metrics(run / METRICS, iteration)
    folder = None
    if late or any(line.endswith(b"\n") for line in dropped):
        folder = _new_folder(run / "superseded", f"after_{iteration}")
        _move(late, dropped, run, folder)
    if dropped:
        atomic_write(run / METRICS, b"".join(kept))
    return folder


def _move(late: Sequence[Path], lines: Sequence[bytes], run: Path, folder: Path) -> None:
    if lines:
        atomic_write(folder / METRICS, b"".join(lines))
    for path in run.glob("events.out.tfevents.*"):
        shutil.copy2(path, folder / path.name)
    for path in late:
        os.replace(path, folder / path.name)


def _split_metrics(path: Path, iteration: int) -> Tuple[List[bytes], List[bytes]]:
    """Return the lines of a metrics file up to an iteration, and those after it."""
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    late = [_iteration_of_line(line) > iteration for line in lines]
    return [line for line, drop in zip(lines, late) if not drop], [line for line, drop in zip(lines, late) if drop]


def _iteration_of_line(line: bytes) -> float:
    """Return the iteration of a line, infinity where it has none, such as one that was cut off."""
    try:
        return float(json.loads(line)["iteration"]) if line.endswith(b"\n") else math.inf
    except (ValueError, KeyError, TypeError):
        return math.inf


def _iteration_of_film(path: Path) -> int:
    match = re.fullmatch(r"model_(\d+)(_frames\.png|\.mp4)", path.name)
    return int(match.group(1)) if match else -1


def _new_folder(parent: Path, name: str) -> Path:
    for number in itertools.count(1):
        folder = parent / (name if number == 1 else f"{name}_{number}")
        with contextlib.suppress(FileExistsError):
            folder.mkdir(parents=True)
            return folder
    raise AssertionError("unreachable")
