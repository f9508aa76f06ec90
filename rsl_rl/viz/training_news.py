"""Follow a training by the files in its run folder, for a page that shows it."""

from __future__ import annotations

import json
import math
import os
import re
import time
from pathlib import Path
from typing import Any, Dict, List, Optional

from rsl_rl.utils.files import is_regular_file
from rsl_rl.viz.page import TrainingNews

METRICS = "metrics.jsonl"

MOST_RECORDS = 1000
"""Records that a page is given; neighbours are merged when there are more."""

_MOST_NAMES = 500  # metrics of a record
_LONGEST_NAME = 120
_LONGEST_LINE = 1_000_000  # [bytes]
_LARGEST_COUNT = 1e15
_FAULTS = re.compile(r"faults/.*|excluded_steps|skipped_steps")


class TrainingWatch:
    """Look for what is new in a run folder; each reader needs its own watch.

    The metrics may be damaged: a line that is no record is counted, and a value that is no finite number is left out.
    """

    def __init__(self, run: Path, first: int, last: int, started: Optional[float] = None):
        self._run, self._first, self._last = run, first, last
        self._started = time.time() if started is None else started  # [s]
        self._checkpoint = -1
        self._rewind()

    def _rewind(self) -> None:
        """Begin at the start of the metrics."""
        self._file, self._offset, self._rest, self._changed = -1, 0, b"", 0.0
        self._newest: Dict[str, float] = {}
        self._evaluation: Dict[str, float] = {}
        self._faults: Dict[str, float] = {}
        self._damaged, self._records, self._replaces, self._sent = 0, _Records(), True, False

    def look(self, ending: str = "") -> Optional[TrainingNews]:
        """Return what is new since the last look; None if there is nothing. The first look and an ending are news."""
        fresh = self._read()
        checkpoint = newest_checkpoint(self._run)
        if self._sent and not (fresh or ending) and checkpoint == self._checkpoint:
            return None
        self._sent, self._checkpoint = True, checkpoint
        replaces = self._replaces or self._records.take_merged()
        self._replaces = False
        return TrainingNews(
            replaces=replaces,
            records=list(self._records.all) if replaces else fresh,
            newest=self._newest,
            evaluation=self._evaluation,
            faults=dict(self._faults),
            damaged=self._damaged,
            seconds_left=self._seconds_left(),
            checkpoint=checkpoint,
            ending=ending,
        )

    def _seconds_left(self) -> Optional[float]:
        """Return the time until the last iteration at the mean speed since the start [s]."""
        done = self._newest.get("iteration", -1.0) - self._first
        if done <= 0:
            return None
        return max(0.0, (self._changed - self._started) / done * (self._last - self._first - done))

    def _read(self) -> List[Dict[str, float]]:
        """Take the lines that were appended to the metrics; return the records that follow those before."""
        if not is_regular_file(self._run / METRICS):  # a pipe or a device could be read for ever
            return []
        try:
            with open(self._run / METRICS, "rb") as file:
                status = os.fstat(file.fileno())
                if self._offset and (status.st_ino != self._file or status.st_size < self._offset):
                    self._rewind()  # lines were moved away, by a training that is resumed
                self._file, self._changed = status.st_ino, status.st_mtime
                file.seek(self._offset)
                fresh: List[Dict[str, float]] = []
                while True:
                    content = file.read(_LONGEST_LINE)
                    if not content:
                        return fresh
                    self._offset += len(content)
                    *lines, self._rest = (self._rest + content).split(b"\n")
                    for line in lines:
                        fresh += self._take(line)
                    if len(self._rest) > _LONGEST_LINE:
                        self._rest = self._rest[:_LONGEST_LINE]  # which makes its line no record
        except OSError:  # there is none yet
            return []

    def _take(self, line: bytes) -> List[Dict[str, float]]:
        """Add a line to the history; return the records that it completes."""
        record = parse_line(line)
        if record is None:
            self._damaged += 1
            return []
        self._newest = record
        if any(name.startswith("evaluation/") for name in record):
            self._evaluation = record
        for name, count in record.items():
            if count > 0 and _FAULTS.fullmatch(name):
                self._faults[name] = min(self._faults.get(name, 0.0) + count, _LARGEST_COUNT)
        return self._records.add(record)


def parse_line(line: bytes) -> Optional[Dict[str, float]]:
    """Return the finite numbers of a line of the metrics by name; None for a line that is no record."""
    try:
        values = json.loads(line) if len(line) < _LONGEST_LINE else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict) or len(values) > _MOST_NAMES:
        return None
    record = {
        name: number
        for name, value in values.items()
        for number in [_number(value)]
        if number is not None and len(name) <= _LONGEST_NAME and name.isprintable()
    }
    return record if record.get("iteration", -1.0) >= 0 else None


def _number(value: Any) -> Optional[float]:
    """Return a finite number; None for anything else."""
    try:
        number = float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


class _Records:
    """Records, of which neighbours are merged when there are too many."""

    def __init__(self) -> None:
        self.all: List[Dict[str, float]] = []
        self._group: List[Dict[str, float]] = []  # that will be one record
        self._size, self._merged = 1, False  # of a group

    def add(self, record: Dict[str, float]) -> List[Dict[str, float]]:
        """Add a record; return what follows the records before."""
        self._group.append(record)
        if len(self._group) < self._size:
            return []
        merged = mean_of(self._group)
        self.all.append(merged)
        self._group = []
        if len(self.all) >= MOST_RECORDS:
            self.all = [mean_of(self.all[i : i + 2]) for i in range(0, len(self.all), 2)]
            self._size, self._merged = 2 * self._size, True
        return [merged]

    def take_merged(self) -> bool:
        """Return whether records have been merged since the last call."""
        merged, self._merged = self._merged, False
        return merged


def mean_of(records: List[Dict[str, float]]) -> Dict[str, float]:
    """Return the mean of each metric over the records that have it; the iteration is that of the last."""
    if len(records) == 1:
        return records[0]
    values: Dict[str, List[float]] = {}
    for record in records:
        for name, value in record.items():
            values.setdefault(name, []).append(value)
    means = {name: sum(value / len(own) for value in own) for name, own in values.items()}  # without overflow
    return {**means, "iteration": records[-1]["iteration"]}


def newest_checkpoint(run: Path) -> int:
    """Return the iteration of the newest checkpoint in a run folder; -1 without one."""
    found = [re.fullmatch(r"model_(\d{1,15})\.pt", path.name) for path in run.glob("model_*.pt")]
    return max((int(match.group(1)) for match in found if match), default=-1)
