"""Train with several seeds: `rsl-rl train --task go2_flat --seeds 1 2 3`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from rsl_rl.cli.command_line import Arguments
from rsl_rl.cli.errors import FlagParser, fail, print_line, usage_errors
from rsl_rl.cli.processes import (
    TrainProcesses,
    describe_exit,
    final_metrics,
    find_named_run,
    reject_launcher,
    require_seeds,
    wait_for_lock,
)
from rsl_rl.cli.result_table import ResultTable, summarize

ParseFlags = Callable[[Sequence[str]], Arguments]
"""A function that parses the command line of a training."""

METRICS = ("mean_reward", "mean_episode_length")
"""Metrics of the table; those of an evaluation follow."""


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
        with wait_for_lock(earlier, lambda: not processes.interrupted) as free:
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
