"""Loggers: their interface, metrics.jsonl, and retries of failed writes. To add one, see docs/extending.md."""

from __future__ import annotations

import json
import math
from collections import deque
from pathlib import Path
from typing import Any, Callable, Deque, Dict, List, Optional, Tuple

from rsl_rl.utils.files import AppendFile
from rsl_rl.utils.registry import Registry

METRICS = "metrics.jsonl"
"""Name of the file with the metrics in a run folder."""

Record = Dict[str, Optional[float]]
"""Metrics of one iteration by their names in metrics.jsonl; None for a metric without a value."""

_MAX_RECORDS = 100_000
"""Records that wait for a logger that cannot write."""

LOGGERS = Registry(
    "logger",
    {
        "tensorboard": "rsl_rl.loggers.tensorboard:TensorBoardLogger",
        "wandb": "rsl_rl.loggers.weights_and_biases:WandbLogger",
        "none": "rsl_rl.loggers.logger:NoLogger",
    },
    base="rsl_rl.loggers.logger:Logger",
)
"""Logger classes, constructed as ``cls(log_dir, config)`` with the run folder and the complete config as a dict."""


class Logger:
    """Write records. A subclass overrides the methods that it needs; they must be fast.

    ``write`` writes a record completely, or raises an OSError and writes nothing; the record is then written later.
    """

    def start(self, first_iteration: int, last_iteration: int) -> None:
        """Prepare for the iterations from the first (exclusive) to the last."""

    def write(self, record: Record) -> None:
        """Write the metrics of one iteration."""

    def note(self, text: str) -> None:
        """Show one line to the user."""

    def sync(self) -> None:
        """Flush files to the disk; called before a checkpoint is written."""

    def close(self) -> None:
        """Close files; ``start`` may follow."""


class NoLogger(Logger):
    """Write nothing."""

    def __init__(self, log_dir: Path, config: Dict):
        pass


class FileLogger(Logger):
    """A logger that appends to a file; ``start`` opens it."""

    _file: Optional[AppendFile] = None

    def append(self, content: bytes) -> None:
        """Write to the file, if the logger is started."""
        if self._file is not None:
            self._file.append(content)

    def sync(self) -> None:
        if self._file is not None:
            self._file.sync()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class JsonlLogger(FileLogger):
    """Append each record to a file as one line."""

    def __init__(self, path: Path):
        self.path = path

    def start(self, first_iteration: int, last_iteration: int) -> None:
        self._file = AppendFile(self.path)

    def write(self, record: Record) -> None:
        finite = {k: v if v is not None and math.isfinite(v) else None for k, v in record.items()}
        self.append(json.dumps(finite).encode() + b"\n")


def read_metrics(run: Path) -> List[Dict[str, Any]]:
    """Return the records of a run's metrics.jsonl, without a last line that is still being written."""
    path = run / METRICS
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


class RetryingLogger(Logger):
    """Queue records that another logger could not write, and retry with the next record.

    A line is printed at the first failure and when writing works again.
    """

    def __init__(self, inner: Logger, print_line: Callable[[str], None]):
        self._inner, self._print_line = inner, print_line
        self._queue: Deque[Record] = deque(maxlen=_MAX_RECORDS)
        self._failing = False
        self._to_start: Optional[Tuple[int, int]] = None

    def start(self, first_iteration: int, last_iteration: int) -> None:
        self._to_start = first_iteration, last_iteration
        self._write_queue()

    def write(self, record: Record) -> None:
        self._queue.append(record)
        self._write_queue()

    def _write_queue(self) -> None:
        """Start the logger if that is still to be done, and write queued records until one fails."""
        name = type(self._inner).__name__
        try:
            if self._to_start is not None:
                self._inner.start(*self._to_start)
                self._to_start = None
            while self._queue:
                self._inner.write(self._queue[0])
                self._queue.popleft()
        except OSError as error:
            if not self._failing:
                self._print_line(f"warning: {name} cannot write: {error}; its records are queued")
            self._failing = True
            return
        if self._failing:
            self._print_line(f"{name} writes again; all queued records are written")
        self._failing = False

    def note(self, text: str) -> None:
        self._inner.note(text)

    def sync(self) -> None:
        try:
            self._inner.sync()
        except OSError as error:
            self._print_line(f"warning: files of {type(self._inner).__name__} may not be on the disk: {error}")

    def close(self) -> None:
        if self._queue:
            self._print_line(f"warning: {len(self._queue)} records of {type(self._inner).__name__} are lost")
        self._inner.close()
