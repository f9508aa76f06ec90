"""Several trainings one after the other: a process for each, their results as a table, and `train --seeds 1 2 3`."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from rsl_rl.cli.command_line import Arguments
from rsl_rl.cli.errors import FlagParser, fail, print_line, usage_errors
from rsl_rl.cli.signals import INTERRUPTED, TERMINATED, handle_signals
from rsl_rl.cli.tables import print_table
from rsl_rl.utils.files import atomic_write, open_file
from rsl_rl.utils.host import parent_death_signal
from rsl_rl.utils.text import markdown_cell, one_line

_POLL_PERIOD = 0.5  # [s]

ParseFlags = Callable[[Sequence[str]], Arguments]
"""A function that parses the command line of a training."""

METRICS = ("mean_reward", "mean_episode_length")
"""Metrics of the table of several seeds; those of an evaluation follow."""


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

    A signal to this process is passed to the training, which saves and ends. On Linux the training also gets SIGTERM
    when this process ends.
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
        program = [sys.argv[0]] if sys.argv[0].endswith(".py") else ["-m", "rsl_rl", "train"]  # that of this process
        command, stopped = [sys.executable, *program, *arguments], False
        with contextlib.ExitStack() as stack:
            printed = None
            if output is not None:
                printed = stack.enter_context(os.fdopen(open_file(output, os.O_WRONLY | os.O_APPEND), "ab"))
            self._process = process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=printed and subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C in the terminal comes here only, and once
                preexec_fn=parent_death_signal(),
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
    runs = sorted(path for path in experiment.glob("*") if pattern.fullmatch(path.name))
    return next((run for run in reversed(runs) if any(run.glob("model_*.pt"))), None)


def final_metrics(run: Path, cfg: Any) -> Optional[Dict[str, Any]]:
    """Return the last record of a run whose training has ended, by max_iterations or until_gate; None for others."""
    from rsl_rl.loggers.logger import read_metrics
    from rsl_rl.utils.checkpoints import checkpoints_of, iteration_of

    checkpoints = checkpoints_of(run)
    last = iteration_of(checkpoints[-1]) if checkpoints else 0
    records = [record for record in read_metrics(run) if record["iteration"] <= last]
    score, needed = "evaluation/score", cfg.progress.until_gate
    scores = [record[score] for record in records if score in record][-needed:]
    passed = 0 < needed == len(scores) and all(x is not None and x <= cfg.progress.gate_score for x in scores)
    return records[-1] if records and (passed or last >= cfg.runner.max_iterations) else None


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


class Summary(NamedTuple):
    """Mean over seeds with its 95 % bootstrap interval, which needs two values."""

    mean: Optional[float]
    low: Optional[float] = None
    high: Optional[float] = None


def summarize(values: Sequence[float]) -> Summary:
    """Return the mean of values and its interval, see :func:`rsl_rl.evaluation.evaluate.bootstrap_interval`."""
    from rsl_rl.evaluation.evaluate import bootstrap_interval

    if not values:
        return Summary(None)
    return Summary(statistics.fmean(values), *(bootstrap_interval(values) if len(values) > 1 else ()))


class ResultTable(NamedTuple):
    """Rows of cells; None is an empty cell."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]

    def print(self, title: str) -> None:
        """Show the table on the console, with four digits of each number."""
        print_table(title, [self.columns, *self._texts()])

    def write(self, path: Path) -> None:
        """Write ``path`` with the ending .csv, with all digits, and with the ending .md."""
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows([self.columns, *self.rows])
        atomic_write(path.with_suffix(".csv"), buffer.getvalue().encode())
        head, *body = ([markdown_cell(cell) for cell in line] for line in (self.columns, *self._texts()))
        lines = [head, ["---"] * len(head), *body]
        rows = ("| " + " | ".join(line) + " |" for line in lines)
        atomic_write(path.with_suffix(".md"), ("\n".join(rows) + "\n").encode())

    def _texts(self) -> List[List[str]]:
        return [[_text(cell) for cell in row] for row in self.rows]


def _text(cell: Any) -> str:
    return "" if cell is None else f"{cell:.4g}" if isinstance(cell, float) else one_line(str(cell))


class Result(NamedTuple):
    """Outcome of the training with one seed."""

    seed: int
    run: Optional[Path]
    metrics: Dict[str, Any]  # of the last iteration; empty if it was not reached
    error: str = ""


def split_flags(argv: Sequence[str]) -> Optional[Tuple[List[int], bool, List[str]]]:
    """Return --seeds, --resume and all other flags; None without --seeds."""
    parser = FlagParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--seeds", nargs="*", type=int)
    if parser.parse_known_args(argv)[0].seeds is None or {"-h", "--help", "--list"} & set(argv):
        return None
    parser.add_argument("--resume", action="store_true")
    known, rest = parser.parse_known_args(argv)
    return known.seeds, known.resume, rest


def train_seeds(seeds: Sequence[int], resume: bool, argv: Sequence[str], parse_flags: ParseFlags) -> int:
    """Train with each seed that has no finished run, print the table and return an exit code."""
    with usage_errors():
        require_seeds(seeds, argv)
        reject_launcher("--seeds")
    for name in ("load_run", "checkpoint", "fresh_episodes", "init_from") if resume else ():
        if any(word.replace("-", "_").startswith(f"__{name}") for word in argv):
            fail(f"--{name} is for a single run; leave it out with --seeds and --resume")
    args = parse_flags(argv)
    processes = TrainProcesses()
    results: List[Result] = []
    for seed in seeds:
        if not processes.interrupted:
            results.append(_train_seed(seed, resume, argv, args, parse_flags, processes))
    table = _table(results)
    table.print(f"{args.cfg.task}: {len(results)} of {len(seeds)} seeds, means with bootstrap intervals")
    for result in results:
        if result.error and not processes.interrupted:
            print_line(f"seed {result.seed} failed: {result.error}")
    if processes.interrupted:
        print_line("interrupted; continue with --resume")
        return processes.exit_code
    return 1 if any(result.error for result in results) else 0


def _train_seed(
    seed: int, resume: bool, argv: Sequence[str], args: Arguments, parse_flags: ParseFlags, processes: TrainProcesses
) -> Result:
    """Start or resume the run of a seed; a finished one is only read."""
    cfg = args.cfg
    experiment = args.log_root / cfg.runner.experiment_name
    name = "_".join(part for part in (cfg.runner.run_name, f"seed_{seed}") if part)
    earlier = find_named_run(experiment, name)
    arguments = [*argv, "--seed", str(seed), "--run_name", name]
    if resume and earlier is not None:
        arguments += ["--resume", "--load_run", earlier.name]
        cfg = parse_flags(arguments).cfg  # that of the run, with these flags
        with usage_errors(), wait_for_lock(earlier, lambda: not processes.interrupted) as free:
            metrics = final_metrics(earlier, cfg) if free else None
        if metrics is not None:
            print_line(f"seed {seed}: finished before, in {earlier}")
            return Result(seed, earlier, metrics)
    print_line(f"seed {seed}:")
    code = processes.run(arguments)
    newest = find_named_run(experiment, name)
    run = newest if resume or newest != earlier else None
    metrics = final_metrics(run, cfg) if run is not None and code == 0 else None
    return Result(seed, run, metrics or {}, "" if code == 0 else describe_exit(code))


def _table(results: Sequence[Result]) -> ResultTable:
    names = [name for result in results for name in result.metrics if name.startswith("evaluation/")]
    columns = [*METRICS, *dict.fromkeys(names)]
    rows = [
        [str(result.seed), *(result.metrics.get(name) for name in columns), result.run and result.run.name]
        for result in results
    ]
    means = [summarize([row[i] for row in rows if row[i] is not None]) for i in range(1, 1 + len(columns))]
    for label, field in (("mean", "mean"), ("95 % from", "low"), ("to", "high")):
        rows.append([label, *(getattr(mean, field) for mean in means), None])
    return ResultTable(("seed", *columns, "run"), rows)
