"""Alternate measurements of several worker processes (A B A B), so that changes of the machine's speed affect all."""

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
"""Packages in a folder for ``--peer``, installed with ``pip install --no-deps --target``."""

Name = TypeVar("Name")


class Worker:
    """A process that measures on request, see serving.py; invalid settings are a ValueError."""

    def __init__(self, script: str, settings: Mapping[str, Any], packages: Optional[Path] = None):
        self._stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115  # closed by stop()
        folders = [packages, HERE.parent, os.environ.get("PYTHONPATH")]  # the first that has an rsl_rl provides it
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "worker.py"), str(HERE / script), json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
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
        """Measure once; return the worker's figures, and its peak memory, "peak_mb".

        A process that ends is a RuntimeError.
        """
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return json.loads(self._read())

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._stderr.seek(0)
            message = self._stderr.read().strip().splitlines() or ["no message"]
            raise RuntimeError(f"{self._name} ended: {message[-1]}")
        return line

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()
        self._stderr.close()


class Spread(NamedTuple):
    """Median and range of a figure over all measurements."""

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
        """Return "median (low-high)", with at least three digits of the median."""
        decimals = max(0, 2 - math.floor(math.log10(self.median))) if self.median > 0 else 0
        median, low, high = (f"{value:.{decimals}f}" for value in self)
        return f"{median} ({low}-{high})"


def alternate(workers: Mapping[Name, Worker], repeats: int, warm_up: int) -> Dict[Name, List[Dict[str, Any]]]:
    """Run the workers in turn; return the figures of the measurements after the warm-up."""
    runs: Dict[Name, List[Dict[str, Any]]] = {name: [] for name in workers}
    for repetition in range(warm_up + repeats):
        for name, worker in workers.items():
            figures = worker.run()
            if repetition >= warm_up:
                runs[name].append(figures)
    return runs


def spreads(runs: Sequence[Mapping[str, float]]) -> Dict[str, Spread]:
    """Return median and range of each figure of a worker."""
    return {name: Spread.of([run[name] for run in runs]) for name in runs[0]}


def ratios(ours: Sequence[Mapping[str, float]], peer: Sequence[Mapping[str, float]]) -> Dict[str, Spread]:
    """Return the ratio peer / ours of each figure that both have, pair by pair."""
    pairs = list(zip(ours, peer))
    return {name: Spread.of([b[name] / a[name] for a, b in pairs]) for name in ours[0] if name in peer[0]}
