"""End a training whose policy is good enough."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Callable, Mapping


class GateStreak:
    """Call ``stop`` when ``length`` evaluations in a row had a score of at most ``limit``.

    A run that is resumed goes on counting: the evaluations up to ``iteration`` are read from its metrics.jsonl.
    """

    def __init__(self, length: int, limit: float, stop: Callable[[], None], metrics_file: Path, iteration: int):
        self._length, self._limit, self._stop = length, limit, stop
        self._count = 0
        for line in metrics_file.read_bytes().splitlines() if metrics_file.is_file() else ():
            record = json.loads(line)
            if "evaluation/score" in record and record["iteration"] <= iteration:
                self._add(record["evaluation/score"])

    def _add(self, score: float) -> None:
        self._count = self._count + 1 if score <= self._limit else 0

    def note_evaluation(self, iteration: int, metrics: Mapping[str, float]) -> None:
        """Count the evaluation of an iteration by ``metrics["score"]``."""
        self._add(metrics["score"])
        if self._count >= self._length:
            self._stop()
