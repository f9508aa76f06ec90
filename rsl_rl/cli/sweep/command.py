"""Search hyper-parameters: `rsl-rl sweep --task recall --space algorithm.learning_rate=log:1e-4..1e-2 --trials 20`.

Every process that runs the same command, also on another machine with the same folder of runs, takes part in the sweep.
An interrupted sweep continues with the same command. It needs Optuna, from the extra `sweep`.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from rsl_rl.cli.command_line import Arguments, parse
from rsl_rl.cli.errors import FlagParser, fail, print_line, usage_errors
from rsl_rl.cli.sweep.search_space import Interval, parse_space
from rsl_rl.cli.trainings import ResultTable, TrainProcesses, reject_launcher, require_seeds, summarize, wait_for_lock
from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.utils.config_io import read_yaml, write_yaml
from rsl_rl.utils.files import refuse_link

if TYPE_CHECKING:
    from rsl_rl.cli.sweep.study import SweepSettings, TrialResult

SAMPLERS = ("tpe", "random")


class Target(NamedTuple):
    """The number that a sweep compares."""

    metric: str  # of metrics.jsonl
    minimize: bool


@dataclass(frozen=True)
class Flags:
    """Flags of a sweep; all other flags are fields of the config, for every training."""

    space: Tuple[str, ...] = ()
    """Parameters to search, each as FIELD=VALUES: choices "a,b,c", a range "0.9..0.99", or a range "log:1e-4..1e-2"
    that is sampled in the logarithm. A value of several words is written as "64 64, 128 128"."""
    trials: Optional[int] = None
    """Number of settings to try; default: every combination of the choices."""
    seeds: Tuple[int, ...] = ()
    """Seeds with which each setting is trained; default: the seed of the config."""
    sampler: str = "tpe"
    """How settings are chosen: tpe (learns from the earlier trials) or random."""
    sampler_seed: int = 0
    """Seed of the sampler."""
    prune: bool = False
    """Stop a trial in its first training where its best value so far is worse than the median of the earlier trials at
    the same iteration; four trials must be complete before."""
    init_from: str = ""
    """Start each training with the weights of this checkpoint file, or of the newest checkpoint in this run folder."""
    log_root: str = ""
    """Folder of all experiments; default: logs/ of the checkout, or of the current folder without a checkout."""


def main(argv: Sequence[str]) -> int:
    if "--resume" in argv:
        fail("a sweep continues with the same command; leave out --resume")
    from_user, own = split_flags(argv)
    args = parse(Flags, __doc__ or "", from_run=False, argv=[*argv_of(own), *from_user])
    with usage_errors():
        require_flags(args.flags, argv)
        if importlib.util.find_spec("optuna") is None:
            fail('a sweep needs Optuna; install it with: pip install "rsl-rl-lib[sweep]", or pip install optuna')
        return sweep(args, from_user)


def split_flags(argv: Sequence[str]) -> Tuple[List[str], Any]:
    """Return the flags of every training, and those of the sweep itself."""
    parser = FlagParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--space", nargs="*", action="append", default=[])
    parser.add_argument("--seeds", nargs="*", default=[])
    parser.add_argument("--prune", action="store_true")
    parser.add_argument("--no_prune", "--no-prune", action="store_false", dest="prune")
    for name in ("trials", "sampler", "sampler_seed", "init_from", "log_root"):
        parser.add_argument(f"--{name}", f"--{name.replace('_', '-')}")
    own, rest = parser.parse_known_args(argv)
    return rest, own


def argv_of(own: Any) -> List[str]:
    """Return the flags of the sweep, with all values of --space in one."""
    argv: List[str] = ["--prune"] if own.prune else []
    for name, values in (("space", [text for texts in own.space for text in texts]), ("seeds", own.seeds)):
        argv += [f"--{name}", *values] if values else []
    for name in ("trials", "sampler", "sampler_seed", "init_from", "log_root"):
        value = getattr(own, name)
        argv += [] if value is None else [f"--{name}", value]
    return argv


def require_flags(flags: Flags, argv: Sequence[str]) -> None:
    """Raise a ValueError for flags of a sweep that have no meaning."""
    if flags.seeds:
        require_seeds(flags.seeds, argv)
    if flags.trials is not None and flags.trials < 1:
        raise ValueError(f"--trials {flags.trials}: give a positive number, or leave it out to try all choices")
    if flags.sampler not in SAMPLERS:
        raise ValueError(f"--sampler {flags.sampler}; allowed: {', '.join(SAMPLERS)}")
    if not 0 <= flags.sampler_seed < 2**32:
        raise ValueError(f"--sampler_seed {flags.sampler_seed}: give a whole number from 0 to {2**32 - 1}")
    reject_launcher("a sweep")


def require_equal_lengths(cfg: Any) -> None:
    """Raise a ValueError for settings that end trainings before their last iteration."""
    early = {"runner.max_time": cfg.runner.max_time, "progress.until_gate": cfg.progress.until_gate}
    for name, value in early.items():
        if value:
            raise ValueError(
                f"{name}={value:g} would end trainings of a sweep before their last iteration; leave it out, and set "
                "max_iterations"
            )


def sweep(args: Arguments, argv: Sequence[str]) -> int:
    """Train until no training is left to this process; write and print the table."""
    from rsl_rl.cli.sweep.study import RunFlags, SweepSettings, SweepStudy, SweepTrainer

    flags, cfg = args.flags, args.cfg
    require_equal_lengths(cfg)

    def parse_config(more: Sequence[str]) -> Any:
        return parse(Flags, "", from_run=False, argv=[*argv, *more]).cfg

    space = parse_space(flags.space, parse_config)
    if flags.trials is None and any(isinstance(parameter, Interval) for parameter in space):
        raise ValueError("--trials is missing; a range has no last value, so give the number of settings to try")
    target, seeds = target_of(cfg), flags.seeds or (cfg.seed,)
    settings = SweepSettings(
        space, flags.trials or 0, seeds, target.minimize, flags.sampler, flags.sampler_seed, flags.prune
    )
    name = cfg.runner.experiment_name
    if name == type(cfg)().runner.experiment_name:
        name = f"{name}_sweep"
    folder = args.log_root / name
    join_sweep(folder, flags.space, settings, [*argv, *(("--init_from", flags.init_from) if flags.init_from else ())])
    study = SweepStudy(folder, settings)
    of_all = [*argv, "--experiment_name", name, "--log_root", str(args.log_root), *evaluation_flags(cfg, flags.prune)]
    of_new = ("--init_from", flags.init_from) if flags.init_from else ()
    run_flags = RunFlags(of_all, of_new, cfg.runner.run_name, folder)
    processes = TrainProcesses()
    trainer = SweepTrainer(study, target.metric, run_flags, parse_config, processes)
    print_line(f"sweep: {folder}")
    while not processes.interrupted:
        with study.claim() as assignment:
            if assignment is None:
                break
            trainer.run(assignment)
        with wait_for_lock(folder):
            result_table(study.results(), settings, target).write(folder / "sweep")
    results = study.results()
    print_results(results, settings, target, folder)
    if processes.interrupted:
        print_line("interrupted; continue with the same command")
        return processes.exit_code
    running = sum(trial.state == "running" for trial in results)
    if running:
        print_line(f"{running} trial(s) are running in other processes, which write the table when they end")
    return 0 if running or any(trial.state == "complete" for trial in results) else 1


def target_of(cfg: Any) -> Target:
    """Return the score of an evaluation, see rsl_rl.evaluation.callbacks.score; the mean reward for a task without a
    gate."""
    if isinstance(cfg.env, LeggedRobotConfig) and cfg.env.gate:
        return Target("evaluation/score", minimize=True)
    return Target("mean_reward", minimize=False)


def evaluation_flags(cfg: Any, prune: bool) -> List[str]:
    """Return flags by which each training evaluates its policy: at the end, and for pruning on the way."""
    from rsl_rl.cli.sweep.study import REPORTS

    last = cfg.runner.max_iterations
    if target_of(cfg).metric == "mean_reward" or cfg.progress.evaluate_interval:
        return []
    return ["--evaluate_interval", str(max(1, last // REPORTS) if prune else last)]


def join_sweep(folder: Path, space: Sequence[str], settings: SweepSettings, argv: Sequence[str]) -> None:
    """Write the settings of a new sweep; those of an existing one must be the same, apart from the number of trials."""
    values: Dict[str, Any] = {
        "space": list(space),
        **{name: getattr(settings, name) for name in ("seeds", "sampler", "sampler_seed", "prune")},
        "grid": settings.trials == 0,
        "flags": list(argv),
    }
    values["seeds"] = list(settings.seeds)
    folder.mkdir(parents=True, exist_ok=True)
    with wait_for_lock(folder):
        path = folder / "sweep.yaml"
        refuse_link(path)
        if not path.exists():
            write_yaml(values, path)
        known = read_yaml(path)
    changed = next((name for name in values if known.get(name) != values[name]), None)
    if changed is not None:
        raise ValueError(
            f"{folder} holds a sweep with other {changed}: {known.get(changed)} and now {values[changed]}; continue it "
            "with its own flags, or start another one with --experiment_name"
        )


def result_table(results: Sequence[TrialResult], settings: SweepSettings, target: Target) -> ResultTable:
    """Return all that is known of the trials, the best first."""
    fields, seeds = [parameter.field for parameter in settings.space], settings.seeds
    columns = ["trial", *fields, target.metric, "95 % from", "to", *(f"seed {seed}" for seed in seeds), "state", "note"]
    rows = []
    for trial in results:
        summary, by_seed = summarize(list(trial.targets.values())), [trial.targets.get(seed) for seed in seeds]
        values = [trial.values.get(field) for field in fields]
        rows.append([trial.number, *values, *summary, *by_seed, trial.state, trial.message])
    return ResultTable(columns, rows)


def print_results(results: Sequence[TrialResult], settings: SweepSettings, target: Target, folder: Path) -> None:
    """Print the table, with short names of the fields, and what ended trials."""
    fields = [parameter.field for parameter in settings.space]
    last = [field.rpartition(".")[2] for field in fields]
    names = [name if last.count(name) == 1 else field for field, name in zip(fields, last)]  # the path where alike
    rows = []
    for trial in results:
        summary = summarize(list(trial.targets.values()))
        interval = None if summary.low is None else f"{summary.low:.4g}..{summary.high:.4g}"
        values = [trial.values.get(field) for field in fields]
        rows.append([trial.number, *values, summary.mean, interval, trial.state])
    best = "lowest" if target.minimize else "highest"
    title = f"{folder.name}: {best} {target.metric} first, means over {len(settings.seeds)} seed(s)"
    ResultTable(["trial", *names, target.metric, "95 % interval", "state"], rows).print(title)
    for trial in results:
        if trial.message:
            print_line(f"trial {trial.number} {trial.state}: {trial.message}")
    print_line(f"table: {folder / 'sweep.csv'} and {folder / 'sweep.md'}")
