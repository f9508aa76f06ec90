"""Workers that take turns: A B A B, so that a machine whose speed drifts is fair to both."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

HERE = Path(__file__).resolve().parent

PEER_PACKAGES = "rsl-rl-lib==5.5.1 tensordict==0.15.3 cloudpickle orjson pyvers importlib_metadata zipp"
"""What a folder for ``--peer`` needs beside torch, to be installed with ``pip install --no-deps --target``."""


class Worker:
    """A process that runs one iteration whenever asked, see serving.py; settings that it refuses are a ValueError."""

    def __init__(self, script: str, settings: Mapping[str, Any], packages: Optional[Path] = None):
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115  # closed by stop()
        environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
        if packages is not None:
            environment["PYTHONPATH"] = str(packages)
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / script), json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
            env=environment,
        )
        self._name = script
        try:
            self._read()
        except RuntimeError as error:
            raise ValueError(str(error)) from None

    def run(self) -> Dict[str, float]:
        """Run one iteration; return the seconds of each phase, and the worker's peak memory so far, "peak_mb".

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
    def of(cls, values: List[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values))


def alternate(workers: Mapping[str, Worker], repeats: int, warm_up: int) -> Dict[str, List[Dict[str, float]]]:
    """Let each worker run in turn; return the figures of the repetitions that count."""
    runs: Dict[str, List[Dict[str, float]]] = {name: [] for name in workers}
    for repetition in range(warm_up + repeats):
        for name, worker in workers.items():
            figures = worker.run()
            if repetition >= warm_up:
                runs[name].append(figures)
    return runs


def compare(runs: Mapping[str, List[Dict[str, float]]]) -> Tuple[Dict[str, Dict[str, Spread]], Dict[str, Spread]]:
    """Return each worker's figures, and how many times more the second one takes of each, pair by pair."""
    figures = {name: {key: Spread.of([run[key] for run in own]) for key in own[0]} for name, own in runs.items()}
    names = list(runs)
    if len(names) < 2:
        return figures, {}
    pairs = list(zip(runs[names[0]], runs[names[1]]))
    return figures, {key: Spread.of([b[key] / a[key] for a, b in pairs]) for key in pairs[0][0]}
