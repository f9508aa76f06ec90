"""Commands that start several trainings: checks, a process for each, and the results in their run folders."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

from rsl_rl.cli.errors import print_line
from rsl_rl.cli.signals import INTERRUPTED, TERMINATED, handle_signals
from rsl_rl.config.experiment import ProgressConfig

_POLL_PERIOD = 0.5  # [s]
_PR_SET_PDEATHSIG = 1  # of Linux' prctl.h


def require_seeds(seeds: Sequence[int], argv: Sequence[str]) -> None:
    """Raise a ValueError for seeds that are missing or named twice, and for --seed beside them."""
    if not seeds:
        raise ValueError("--seeds is empty; give one or several numbers, such as --seeds 1 2 3")
    outside = [seed for seed in seeds if not 0 <= seed < 2**32]
    if outside:
        raise ValueError(f"--seeds {outside[0]}: give whole numbers from 0 to {2**32 - 1}")
    twice = [seed for i, seed in enumerate(seeds) if seed in seeds[:i]]
    if twice:
        raise ValueError(f"--seeds names {twice[0]} twice; name each seed once")
    if any(word.partition("=")[0] == "--seed" for word in argv):
        raise ValueError("--seed and --seeds exclude each other; use only one of them")


def reject_launcher(what: str) -> None:
    """Raise a ValueError for a process that torchrun has started with others."""
    size = os.environ.get("WORLD_SIZE", "1")
    if size != "1":
        raise ValueError(
            f"{what} starts processes of its own, and WORLD_SIZE={size} says that torchrun started this one; start it "
            "without torchrun"
        )


class TrainProcesses:
    """Run trainings one after the other, each as `rsl-rl train` in a process of its own.

    Signals to this process go to the training, which saves and ends; so does the end of this process, on Linux.
    """

    def __init__(self) -> None:
        self._received: List[signal.Signals] = []
        self._process: Optional[subprocess.Popen] = None
        self._code = 0  # of a training that was interrupted itself
        handle_signals(self._pass_on)

    def _pass_on(self, number: int, frame: Any) -> None:
        self._received.append(signal.Signals(number))
        if self._process is not None:
            self._process.send_signal(number)

    @property
    def interrupted(self) -> bool:
        """Whether a signal, or a training that one ended, asks for no further training."""
        return bool(self._received or self._code)

    @property
    def exit_code(self) -> int:
        """Exit code of this process after an interruption."""
        return INTERRUPTED if signal.SIGINT in self._received else self._code or TERMINATED

    def run(
        self, arguments: Sequence[str], output: Optional[Path] = None, stop: Optional[Callable[[], bool]] = None
    ) -> int:
        """Train with the flags ``arguments`` and return the exit code, negative for the signal that killed it.

        What it prints is appended to the file ``output``, or shown. ``stop`` is called twice a second; where it returns
        true, the training saves and ends.
        """
        command, stopped = [sys.executable, *_train_program(), *arguments], False
        with contextlib.ExitStack() as stack:
            printed = None if output is None else stack.enter_context(output.open("ab"))
            self._process = process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=printed and subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C in the terminal comes here only, and once
                preexec_fn=_end_with_parent(),
            )
            if self._received:  # before there was a process
                process.send_signal(self._received[-1])
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    code = process.wait(timeout=_POLL_PERIOD if stop else None)
                    break
                if stop is not None and not stopped and stop():
                    process.terminate()
                    stopped = True
        self._process = None
        if code in (INTERRUPTED, TERMINATED) and not stopped:
            self._code = code
        return code


def _train_program() -> List[str]:
    """Return the program of this command line, for trainings."""
    return [sys.argv[0]] if sys.argv[0].endswith(".py") else ["-m", "rsl_rl", "train"]


def _end_with_parent() -> Optional[Callable[[], Any]]:
    """Return a function that a new process calls to get SIGTERM when its parent ends, also where that is killed; None
    on systems that cannot do this."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    return lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def describe_exit(code: int, output: Optional[Path] = None) -> str:
    """Return why a training failed: the last line that it printed, or its exit code."""
    lines = output.read_text(encoding="utf-8", errors="replace").strip().splitlines() if output is not None else []
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}"
    return lines[-1] if lines else f"exit code {code}"


def find_named_run(experiment: Path, run_name: str) -> Optional[Path]:
    """Return the newest run of that name which has a checkpoint."""
    pattern = re.compile(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d_" + re.escape(run_name) + r"(_\d+)?")
    runs = sorted(path for path in experiment.glob(f"*_{run_name}*") if pattern.fullmatch(path.name))
    return next((run for run in reversed(runs) if any(run.glob("model_*.pt"))), None)


def read_metrics(run: Path) -> List[Dict[str, Any]]:
    """Return the records of metrics.jsonl, without a last line that is still being written."""
    path = run / "metrics.jsonl"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def final_metrics(run: Path, cfg: Any) -> Optional[Dict[str, Any]]:
    """Return the last record of a run whose training has ended, by max_iterations or until_gate; None for others."""
    from rsl_rl.utils.checkpoints import checkpoints_of, iteration_of

    checkpoints = checkpoints_of(run)
    last = iteration_of(checkpoints[-1]) if checkpoints else 0
    records = [record for record in read_metrics(run) if record["iteration"] <= last]
    ended = last >= cfg.runner.max_iterations or _passed_gate(records, cfg.progress)
    return records[-1] if records and ended else None


def _passed_gate(records: Sequence[Dict[str, Any]], progress: ProgressConfig) -> bool:
    """Return whether the last evaluations have met until_gate."""
    scores = [record["evaluation/score"] for record in records if "evaluation/score" in record]
    scores = [score is not None and score <= progress.gate_score for score in scores[-progress.until_gate :]]
    return 0 < progress.until_gate == len(scores) and all(scores)


@contextlib.contextmanager
def wait_for_lock(folder: Path, patience: Callable[[], bool] = lambda: True) -> Iterator[bool]:
    """Hold the lock of a folder as soon as no other process holds it; give False where ``patience`` ends before."""
    from rsl_rl.runners import TrainingError
    from rsl_rl.runners.run_folder import run_lock

    with contextlib.ExitStack() as stack:
        began: Optional[float] = time.monotonic()
        while patience():
            try:
                stack.enter_context(run_lock(folder))
            except TrainingError as error:
                if began is not None and time.monotonic() - began > 10.0:
                    print_line(f"waiting: {error}")
                    began = None  # said once
                time.sleep(0.05)
            else:
                yield True
                return
        yield False
