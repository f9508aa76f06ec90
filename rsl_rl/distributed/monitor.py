"""Ranks that watch each other, so that a training ends when one of them is lost."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Dict, List, Optional

import torch.distributed as dist

_PERIOD = 1.0
"""Time between two signs of life [s]."""
_SILENT_PERIODS = 5
"""Number of periods without a sign of life after which a rank counts as ended."""
_GRACE = 5.0
"""Time in which a process ends by itself after another rank has failed [s]."""


class Monitor(threading.Thread):
    """A thread that publishes signs of life of this rank, and ends the process if it waits for others too long.

    ``store`` is a connection to the key-value store of the ranks for this object alone. A sign of life is the number of
    the last call of the collective that the rank has begun, and a count of seconds.
    """

    def __init__(self, store: dist.Store, rank: int, size: int, timeout: float):
        super().__init__(daemon=True, name="rank monitor")
        self._store, self._rank, self._size, self._timeout = store, rank, size, timeout
        self._lock = threading.RLock()  # of the store; a signal handler may interrupt its holder
        self._stopped = threading.Event()
        self._beats = 0
        self._num_calls = 0
        self._waiting_since: Optional[float] = None  # time.monotonic() [s]
        self._failed_since: Optional[float] = None
        self._publish()

    def begin_call(self) -> None:
        """Note that this rank waits for the others, or for its device."""
        self._num_calls += 1
        self._waiting_since = time.monotonic()

    def end_call(self) -> None:
        """Note that this rank no longer waits."""
        self._waiting_since = None

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()

    def run(self) -> None:
        while not self._stopped.wait(_PERIOD):
            try:
                self._publish()
                failed = self.failure_is_reported()
            except RuntimeError:  # the process that serves the store has ended
                failed = True
            self._end_late_process(failed)

    def _publish(self) -> None:
        self._beats += 1
        with self._lock:
            self._store.set(f"life/{self._rank}", f"{self._num_calls} {self._beats}")

    def _end_late_process(self, failed: bool) -> None:
        """End the process if it waits longer than the time limit, or goes on long after another one has failed."""
        now = time.monotonic()
        if failed:
            self._failed_since = self._failed_since or now
            if now - self._failed_since > _GRACE and not self._stopped.is_set():
                os._exit(1)
        since = self._waiting_since
        if not failed and since is not None and now - since > self._timeout:
            late = self.late_ranks()
            if self._waiting_since == since and self.claim_report() and not self._stopped.is_set():
                names = ", ".join(late) or "its own device"
                text = f"rank {self._rank} has waited {self._timeout:g} s for {names}; the training ends"
                print(text, file=sys.stderr, flush=True)
                os._exit(1)

    def failure_is_reported(self) -> bool:
        """Return whether a rank has reported the end of the training."""
        with self._lock:
            return self._store.check(["failed"])

    def claim_report(self) -> bool:
        """Return whether this rank is the first to report the end of the training; the others stay silent."""
        try:
            with self._lock:
                return self._store.add("failed", 1) == 1
        except RuntimeError:  # rank 0 served the store and has ended
            return self._rank == min(1, self._size - 1)

    def late_ranks(self) -> List[str]:
        """Describe the ranks that have ended, or else those that have begun fewer calls than this one.

        It takes some seconds.
        """
        try:
            before = self._lives()
            for _ in range(_SILENT_PERIODS):
                time.sleep(_PERIOD)
                self._publish()  # others may ask at the same time
            after = self._lives()
        except RuntimeError:
            return ["rank 0, which gives no sign of life"]
        others = [rank for rank in range(self._size) if rank != self._rank]
        ended = [f"rank {rank}, which gives no sign of life" for rank in others if before[rank] == after[rank]]
        calls = {rank: int(after[rank].split()[0]) for rank in others}
        busy = [f"rank {rank}, which is alive and does not answer" for rank in others if calls[rank] < self._num_calls]
        return ended or busy

    def _lives(self) -> Dict[int, str]:
        with self._lock:
            return {rank: self._store.get(f"life/{rank}").decode() for rank in range(self._size)}
