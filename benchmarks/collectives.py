"""Measure what collectives of gloo cost on this machine, by size and number of processes."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

from rich.console import Console
from rich.table import Table

from benchmarks.flags import require_counts

_PATIENCE = 600.0
"""Longest time of the measurements with one number of processes [s]."""


@dataclass(frozen=True)
class Collectives:
    """Measure all-reduce, broadcast and all-gather of gloo between processes of this machine, by size of a message."""

    processes: Tuple[int, ...] = (2, 4)
    """Numbers of processes."""
    kilobytes: Tuple[int, ...] = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536)
    """Sizes of the message of each process [KiB]."""
    repeats: int = 15
    """Number of measurements of each size."""

    def __post_init__(self):
        require_counts(self, "processes", "kilobytes", "repeats")
        if len(set(self.kilobytes)) < 2:
            raise ValueError(f"--kilobytes {self.kilobytes[0]}: give at least two sizes, to find latency and bandwidth")
        if min(self.processes) < 2:
            raise ValueError(f"--processes {min(self.processes)}: a collective needs at least 2")


def measure(cfg: Collectives) -> Dict[str, Any]:
    """Print a table for each number of processes and return the content."""
    sizes = [1024 * kilobytes for kilobytes in cfg.kilobytes]
    results: List[Dict[str, Any]] = []
    for processes in cfg.processes:
        seconds = _run(processes, sizes, cfg.repeats)
        table = Table(title=f"gloo, {processes} processes: time of a collective, least and median of {cfg.repeats}")
        for column in ("message [KiB]", *(f"{name} [ms]" for name in seconds), "least all_reduce [GB/s]"):
            table.add_column(column, justify="right")
        for i, size in enumerate(sizes):
            times = [f"{1e3 * one[i]['least']:.3f}, {1e3 * one[i]['median']:.3f}" for one in seconds.values()]
            table.add_row(str(size // 1024), *times, f"{size / seconds['all_reduce'][i]['least'] / 1e9:.2f}")
        Console().print(table)
        latency, bandwidth = fit(sizes, [times["least"] for times in seconds["all_reduce"]])
        print(f"all_reduce: {1e6 * latency:.0f} us + size / {bandwidth / 1e9:.2f} GB/s")
        results.append(
            {"processes": processes, "bytes": sizes, "seconds": seconds, "latency": latency, "bandwidth": bandwidth}
        )
    return {"benchmark": "collectives", "settings": dataclasses.asdict(cfg), "results": results}


def _run(processes: int, sizes: Sequence[int], repeats: int) -> Dict[str, List[Dict[str, float]]]:
    """Start the processes and return least and median seconds by operation and size; a process that fails is a
    RuntimeError."""
    worker = str(Path(__file__).with_name("collective_worker.py"))
    with tempfile.TemporaryDirectory() as folder:
        common = {"size": processes, "address": f"{folder}/rendezvous", "bytes": list(sizes), "repeats": repeats}
        started = [
            subprocess.Popen(
                [sys.executable, worker, json.dumps({"rank": rank, **common})],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(processes)
        ]
        try:
            outputs = [process.communicate(timeout=_PATIENCE) for process in started]
        finally:
            for process in started:
                process.kill()
    for process, (_, errors) in zip(started, outputs):
        if process.returncode:
            raise RuntimeError(f"a process of the collectives failed: {(errors.strip().splitlines() or [''])[-1]}")
    return json.loads(outputs[0][0].strip().splitlines()[-1])


def fit(sizes: Sequence[float], seconds: Sequence[float]) -> Tuple[float, float]:
    """Return latency [s] and bandwidth [B/s] of seconds = latency + size / bandwidth, with the least sum of squared
    relative errors."""
    import numpy as np

    weights = 1 / np.asarray(seconds)
    matrix = np.stack((np.ones(len(sizes)), np.asarray(sizes, dtype=float)), axis=1) * weights[:, None]
    latency, slope = np.linalg.lstsq(matrix, np.ones(len(sizes)), rcond=None)[0]
    return float(latency), float(1 / slope)
