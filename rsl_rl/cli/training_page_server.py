"""Serve the page of a training in a process of its own, which reads only the run folder.

`python -m rsl_rl.cli.training_page_server SOCKET`: SOCKET is the number of a listening socket. The first line of the
input says what is served, and the second one how the training has ended. The process is started before the training is
set up, and imports in that time what it needs for the policies.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Callable

from rsl_rl.utils.text import one_line
from rsl_rl.viz.page import PagePolicy, PageTraining, page_of_training
from rsl_rl.viz.page_server import PageServer
from rsl_rl.viz.request_guard import RequestGuard
from rsl_rl.viz.training_news import TrainingWatch


def import_policies() -> Callable[[Path], Callable[[], PagePolicy]]:
    """Return a function that maps a run folder to its source of policies; without MuJoCo, the source says so."""
    try:
        from rsl_rl.cli.training_policies import PolicySource
    except ImportError as error:
        problem = f"{one_line(str(error))}; install the extra: pip install 'rsl-rl-lib[sim]'"
        return lambda run: lambda: PagePolicy(-1, None, problem, 0.0)
    return lambda run: PolicySource(run).newest


def main() -> None:
    imported = ThreadPoolExecutor(1).submit(import_policies)
    line = sys.stdin.readline()
    if not line:  # the training could not be set up
        os._exit(0)
    started = time.time()
    settings = json.loads(line)
    run, training = Path(settings["run"]), PageTraining(**settings["training"])
    source = lru_cache(maxsize=None)(lambda: imported.result()(run))
    server = PageServer(
        socket.socket(fileno=int(sys.argv[1])),
        RequestGuard(settings["token"]),
        page_of_training(training),
        lambda: TrainingWatch(run, training.first, training.last, started),
        lambda: source()(),
    )
    threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
    ending = sys.stdin.readline().strip()  # nothing if the process of the training was killed
    server.end(ending or "the training was stopped")
    os._exit(0)  # without waiting for imports, or for a policy that is being exported


if __name__ == "__main__":
    main()
