"""A logger that outlasts a full disk."""

from __future__ import annotations

from collections import deque
from typing import Callable, Deque, Optional, Tuple

from rsl_rl.loggers.logger import Logger, Record

_MAX_RECORDS = 100_000


class RetryingLogger(Logger):
    """Keeps what another logger could not write, and offers it again with the next record; the user is told when that
    begins and when it ends."""

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
        """Start the logger where it has not, and write what waits, as far as possible."""
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
                self._print_line(f"warning: {name} cannot write: {error}; its records wait until it can")
            self._failing = True
            return
        if self._failing:
            self._print_line(f"{name} writes again, and has written what waited")
        self._failing = False

    def note(self, text: str) -> None:
        self._inner.note(text)

    def sync(self) -> None:
        try:
            self._inner.sync()
        except OSError as error:
            self._print_line(f"warning: {type(self._inner).__name__} is not sure to be on the disk: {error}")

    def close(self) -> None:
        if self._queue:
            self._print_line(f"warning: {len(self._queue)} records of {type(self._inner).__name__} are lost")
        self._inner.close()
