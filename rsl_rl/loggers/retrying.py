"""Retry failed writes of a logger."""

from __future__ import annotations

from collections import deque
from typing import Callable, Deque, Optional, Tuple

from rsl_rl.loggers.logger import Logger, Record

_MAX_RECORDS = 100_000


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
