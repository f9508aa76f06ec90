"""Lines that say how much of a long computation is done."""

import time
from typing import Callable


def silent(share: float) -> None:
    """Take the share that is done, from 0 to 1, and print nothing."""


class ProgressLines:
    """Print the share that is done and an estimate of the time that is left, at most every ``period`` seconds."""

    def __init__(
        self,
        what: str,
        period: float = 10.0,  # [s]
        clock: Callable[[], float] = time.monotonic,
        print_line: Callable[[str], None] = lambda line: print(line, flush=True),
    ):
        self._what, self._period, self._clock, self._print_line = what, period, clock, print_line
        self._start = self._last = clock()

    def __call__(self, share: float) -> None:
        """Take the share that is done, from 0 to 1."""
        now = self._clock()
        if now - self._last < self._period or not 0.0 < share < 1.0:
            return
        self._last = now
        left = round((now - self._start) * (1.0 - share) / share)
        self._print_line(f"{self._what}: {share:.0%} done, about {left // 60}:{left % 60:02d} min left")
