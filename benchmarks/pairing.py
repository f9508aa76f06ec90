"""Workers that take turns: A B A B, so that a machine whose speed drifts is fair to both."""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, TypeVar

HERE = Path(__file__).resolve().parent

PEER_PACKAGES = "rsl-rl-lib==5.5.1 tensordict==0.15.3 cloudpickle orjson pyvers importlib_metadata zipp"
"""What a folder for ``--peer`` needs beside torch, to be installed with ``pip install --no-deps --target``."""

Name = TypeVar("Name")


class Worker:
    """A process that measures whenever asked, see serving.py; settings that it refuses are a ValueError."""

    def __init__(self, script: str, settings: Mapping[str, Any], packages: Optional[Path] = None):
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115  # closed by stop()
        folders = [packages, HERE.parent, os.environ.get("PYTHONPATH")]  # the first that has an rsl_rl provides it
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / script), json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
            env={
                **os.environ,
                "PYTHONWARNINGS": "ignore",
                "PYTHONPATH": os.pathsep.join(str(folder) for folder in folders if folder),
            },
        )
        self._name = script
        try:
            self._read()
        except RuntimeError as error:
            self.stop()
            raise ValueError(str(error)) from None

    def run(self) -> Dict[str, Any]:
        """Measure once; return the worker's figures, and its peak memory so far, "peak_mb".

        A process that dies of it is a RuntimeError.
        """
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return json.loads(self._read())

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._complaints.seek(0)
            complaint = self._complaints.read().strip().splitlines() or ["it says nothing"]
            raise RuntimeError(f"{self._name} died: {complaint[-1]}")
        return line

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()
        self._complaints.close()


class Spread(NamedTuple):
    """A figure over the repetitions."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values))

    def times(self, factor: float) -> Spread:
        """Return the figure in another unit."""
        return Spread(*(value * factor for value in self))

    def text(self) -> str:
        """Write it as "median (low-high)", the median to three digits at least."""
        decimals = max(0, 2 - math.floor(math.log10(self.median))) if self.median > 0 else 0
        median, low, high = (f"{value:.{decimals}f}" for value in self)
        return f"{median} ({low}-{high})"


def alternate(workers: Mapping[Name, Worker], repeats: int, warm_up: int) -> Dict[Name, List[Dict[str, Any]]]:
    """Let each worker run in turn; return the figures of the repetitions that count."""
    runs: Dict[Name, List[Dict[str, Any]]] = {name: [] for name in workers}
    for repetition in range(warm_up + repeats):
        for name, worker in workers.items():
            figures = worker.run()
            if repetition >= warm_up:
                runs[name].append(figures)
    return runs


def spreads(runs: Sequence[Mapping[str, float]]) -> Dict[str, Spread]:
    """Return each figure over a worker's repetitions."""
    return {name: Spread.of([run[name] for run in runs]) for name in runs[0]}


def ratios(ours: Sequence[Mapping[str, float]], peer: Sequence[Mapping[str, float]]) -> Dict[str, Spread]:
    """Return how many times more the peer takes of each figure that both have, pair by pair."""
    pairs = list(zip(ours, peer))
    return {name: Spread.of([b[name] / a[name] for a, b in pairs]) for name in ours[0] if name in peer[0]}
