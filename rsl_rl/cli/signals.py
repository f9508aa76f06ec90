"""Signals that end a training after saving, and its exit codes."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING, Any, Callable, Iterator, List

from rsl_rl.cli.errors import Ended, program

if TYPE_CHECKING:
    from rsl_rl.runners import OnPolicyRunner

INTERRUPTED, TERMINATED = 130, 143
"""Exit codes after Ctrl-C, and after SIGTERM, SIGUSR1, SIGHUP or max_time; the run is saved."""

SHOW_CURSOR = b"\x1b[?25h"
"""Escape sequence that shows the cursor of a terminal."""

SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGUSR1", "SIGHUP") if hasattr(signal, name)]
"""Signals that stop a training after saving; SLURM can send SIGUSR1 before the time limit, a closed terminal sends
SIGHUP."""


def always() -> bool:
    return True


def exit_on_signals(reports: Callable[[], bool] = always, when: str = "before training began") -> None:
    """Install signal handlers that end the process, before there is something to save, with one line where ``reports``
    returns true: torchrun sends SIGTERM to all ranks, also after one has failed."""

    def leave(number: int, frame: Any) -> None:
        if reports():
            print(f"{program()}: interrupted by {signal.Signals(number).name} {when}", file=sys.stderr)
        raise Ended(INTERRUPTED if number == signal.SIGINT else TERMINATED)

    handle_signals(leave)


def stop_on_signals(runner: OnPolicyRunner) -> List[signal.Signals]:
    """Install signal handlers that stop the training after the current iteration, or at once for a second Ctrl-C.

    Return the list to which they append received signals.
    """
    received: List[signal.Signals] = []

    def stop(number: int, frame: Any) -> None:
        if number == signal.SIGINT and signal.SIGINT in received:
            if os.isatty(sys.stdout.fileno()):
                os.write(sys.stdout.fileno(), SHOW_CURSOR)  # the table of the console hides it
            os.write(sys.stderr.fileno(), b"stopped at once; the newest checkpoint is in the run folder\n")
            os._exit(INTERRUPTED)
        received.append(signal.Signals(number))
        runner.request_stop(received[0].name)

    handle_signals(stop)
    return received


def handle_signals(handler: Callable[[int, Any], None]) -> None:
    """Install a handler of all signals in SIGNALS; SIGHUP stays ignored under nohup."""
    hangup = getattr(signal, "SIGHUP", None)
    for number in SIGNALS:
        if number != hangup or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)


@contextlib.contextmanager
def delay_signals() -> Iterator[None]:
    """Delay signals until the end of the block. Use it where an exception between two instructions would leave a
    resource that nothing releases. Of several signals only the first is handled."""
    received: List[int] = []
    try:
        with contextlib.ExitStack() as former:
            for number in SIGNALS:
                former.callback(signal.signal, number, signal.getsignal(number))
            handle_signals(lambda number, frame: received.append(number))
            yield
    finally:
        if received:
            signal.raise_signal(received[0])
