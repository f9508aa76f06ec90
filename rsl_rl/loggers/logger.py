"""Loggers: their interface, metrics.jsonl, and retries of failed writes. To add one, see docs/extending.md."""

from __future__ import annotations

import inspect
import json
import math
from collections import deque
from pathlib import Path
from typing import Any, Callable, Deque, Dict, List, Optional, Tuple

from rsl_rl.utils.files import AppendFile
from rsl_rl.utils.registry import Registry
from rsl_rl.utils.text import one_line

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


def load_logger(name: str) -> Callable[..., Logger]:
    """Return the class of a logger by its name, or by "package.module:Class"; anything else is a ValueError."""
    cls = LOGGERS.load(name)
    try:
        inspect.signature(cls).bind(Path(), {})
    except TypeError as error:
        raise ValueError(f"runner.logger={name} cannot be called with (log_dir, config): {error}") from error
    return cls


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


def parse_record(line: bytes) -> Dict[str, Any]:
    """Return the record of a line of metrics.jsonl; a damaged one is a ValueError."""
    try:
        record = json.loads(line)
    except RecursionError as error:
        raise ValueError("its brackets are nested too deeply") from error
    if not isinstance(record, dict) or not isinstance(record.get("iteration"), int):
        raise ValueError("it is no object with an iteration")
    wrong = [name for name, value in record.items() if not isinstance(value, (int, float, type(None)))]
    if wrong:
        raise ValueError(f"its '{wrong[0]}' is no number")
    return record


def read_metrics(run: Path) -> List[Dict[str, Any]]:
    """Return the records of a run's metrics.jsonl, without a last line that is still being written; a damaged line is a
    ValueError."""
    path = run / METRICS
    content = path.read_bytes() if path.is_file() else b""
    records = []
    for number, line in enumerate(content.split(b"\n")[:-1], start=1):
        try:
            records.append(parse_record(line))
        except ValueError as error:
            reason = one_line(str(error))[:200]
            raise ValueError(f"line {number} of {path} is damaged: {reason}; delete or correct this line") from error
    return records


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
