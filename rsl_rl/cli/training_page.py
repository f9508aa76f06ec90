"""The page of a training: `rsl-rl train --page PORT`. A process of its own serves it (training_page_server.py)."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from rsl_rl.utils.text import one_line
from rsl_rl.viz.page import PageTraining, read_template
from rsl_rl.viz.request_guard import HOST, RequestGuard

_NICENESS = 10  # so that the first policy comes within a minute also where the training takes all processors
_FAREWELL = 3.0  # longest time for the last news [s]


class TrainingPage:
    """A port at which the page of a training is served; nothing is served before :meth:`start` and after :meth:`end`.

    A port that cannot be used, and a checkout in which the page is not built, are a ValueError.
    """

    def __init__(self, port: int):
        read_template()
        if not 0 <= port <= 65535:
            raise ValueError(f"--page {port}: give a number from 1 to 65535, or 0 for a free port")
        try:
            listening = socket.create_server((HOST, port))
        except OSError as error:
            raise ValueError(
                f"--page {port}: {os.strerror(error.errno or 0)}; give another port, or 0 for a free one"
            ) from error
        self._guard = RequestGuard()
        self.address = f"http://{HOST}:{listening.getsockname()[1]}/?token={self._guard.token}"
        with listening:
            self._process = _start_process(listening.fileno())

    def start(self, run: Path, training: PageTraining) -> None:
        """Serve the page of a training, whose files are in the folder ``run``."""
        self._tell(json.dumps({"run": str(run), "token": self._guard.token, "training": asdict(training)}))

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None  # it is a pipe
        with contextlib.suppress(OSError):  # the process has ended; the training goes on
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()

    def end(self, text: str) -> None:
        """Tell the browsers how the training has ended, and end the process."""
        self._tell(one_line(text))
        try:
            self._process.wait(_FAREWELL)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _start_process(socket_number: int) -> subprocess.Popen[bytes]:
    """Start the process that serves the page; an OSError says why that is not possible."""
    threads = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    return subprocess.Popen(
        [sys.executable, "-m", "rsl_rl.cli.training_page_server", str(socket_number)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        pass_fds=(socket_number,),
        preexec_fn=_step_aside,
        env={**os.environ, **threads, "CUDA_VISIBLE_DEVICES": "", "PYTHONWARNINGS": "ignore"},
    )


def _step_aside() -> None:
    os.setpgrp()  # Ctrl-C is for the training; a session of its own would have a priority of its own
    os.nice(_NICENESS)
