"""Trainings by the command line, and results that are kept line by line, for benchmarks that can be continued."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

ROOT = Path(__file__).resolve().parent.parent


def rsl_rl(*words: str) -> str:
    """Run a command and return its last line, for evaluate JSON; empty if it prints nothing."""
    done = subprocess.run(
        [sys.executable, "-m", "rsl_rl", *words], stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT
    )
    return (done.stdout.splitlines() or [""])[-1]


def trained(name: str, seed: int, folder: Path, *flags: str) -> Path:
    """Return the folder of a training of go2_flat with flags, which is run if it is not there."""
    run = folder / "logs" / "go2_flat" / f"{name}_{seed}"
    if not run.exists():
        place = ["--log_root", str(folder / "logs"), "--run_name", run.name]
        rsl_rl("train", "--task", "go2_flat", "--seed", str(seed), *place, *flags)
        (made,) = run.parent.glob(f"????-??-??_*_{run.name}")
        made.rename(run)
    return run


def read_results(path: Path) -> List[Dict[str, Any]]:
    """Return the results in a file, one on each line; none if there is no file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def add_result(path: Path, result: Dict[str, Any]) -> None:
    """Append a result to a file."""
    with path.open("a") as file:
        file.write(json.dumps(result) + "\n")
