"""Judge trained policies: `python scripts/evaluate.py --task go2_flat`. Ends with one line of JSON.

Several checkpoints (--checkpoints 100 120) or runs (--load_runs a b) are judged side by side, with the same robots and
commands. An HTML report with plots goes into the run's folder.
"""

import argparse
import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Literal, NamedTuple, Optional, Sequence, Tuple, Union

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.command_line import Arguments, fail, parse, usage_errors

if TYPE_CHECKING:
    from rsl_rl.config.task import LeggedRobotConfig
    from rsl_rl.runners.loading import LoadedPolicy
    from rsl_rl.tasks.evaluation import Judgement


@dataclass(frozen=True)
class Flags:
    """What to evaluate, apart from the config; a plural stands for several command lines, see one_line_each()."""

    load_run: str = "-1"
    """Folder of the run; -1 for the newest."""
    load_runs: Tuple[str, ...] = ()
    """Several of them, side by side."""
    checkpoint: Union[int, Literal["best"]] = -1
    """Iteration to evaluate; -1 for the newest, best for what a training with --evaluate_interval found to be best."""
    checkpoints: Tuple[Union[int, Literal["best"]], ...] = ()
    """Several of them, of every run, side by side."""
    num_envs: int = 256
    """Robots that walk at once."""
    seconds: float = 20.0
    """Time that each robot walks [s]."""
    num_seeds: int = 1
    """Repetitions, each with other commands and robots."""
    pushes: bool = False
    """Push the robots as in training."""
    report: str = ""
    """File of the HTML report, or "none"; without it, evaluation_<iteration>.html in the run's folder, and
    comparison.html in the first run's folder for several checkpoints."""


class Candidate(NamedTuple):
    """A checkpoint to judge."""

    name: str
    loaded: "LoadedPolicy"
    env_cfg: "LeggedRobotConfig"
    sim_device: str


def main(argv: Sequence[str]) -> int:
    asked = [parse(Flags, __doc__ or "", from_run=True, argv=line) for line in one_line_each(argv)]
    flags, seed = asked[0].flags, asked[0].cfg.seed + 1000
    with usage_errors():
        refuse_what_makes_no_sense(flags)
        found = find(asked)
        report = place_of_report(flags.report, found)
        candidates = load(found)

    judgements = [judge(candidate, flags, seed) for candidate in candidates]
    conditions = f"{flags.num_envs} robots, {flags.seconds:g} s, {flags.num_seeds} seed(s)"
    if flags.pushes:
        conditions += ", with pushes"
    print_tables(judgements, conditions)
    print_verdicts(judgements)
    if report is not None:
        print(write_report(report, asked[0].cfg.task, conditions, judgements))
    print(json.dumps(result_of(judgements)))
    return 0


def one_line_each(argv: Sequence[str]) -> List[List[str]]:
    """Return a command line for each checkpoint that --load_runs and --checkpoints name: each is parsed with the config
    that it was trained with."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for name, count in (("load_run", None), ("load_runs", "+"), ("checkpoint", None), ("checkpoints", "+")):
        parser.add_argument(f"--{name}", f"--{name.replace('_', '-')}", nargs=count)
    try:
        known, rest = parser.parse_known_args(argv)
    except argparse.ArgumentError as error:
        fail(str(error))
        raise
    for name in ("load_run", "checkpoint"):
        if getattr(known, name) is not None and getattr(known, f"{name}s") is not None:
            fail(f"--{name} and --{name}s both say what to judge; give one of them")
    runs = known.load_runs or ["-1" if known.load_run is None else known.load_run]
    checkpoints = known.checkpoints or ["-1" if known.checkpoint is None else known.checkpoint]
    return [[*rest, "--load_run", run, "--checkpoint", iteration] for run in runs for iteration in checkpoints]


def refuse_what_makes_no_sense(flags: Any) -> None:
    for name in ("num_envs", "seconds", "num_seeds"):
        if getattr(flags, name) <= 0:
            raise ValueError(f"--{name} {getattr(flags, name)}: give a positive number")


def find(asked: Sequence[Arguments]) -> List[Tuple[Arguments, Path]]:
    """Return the checkpoint of each command line; a ValueError says which one is not there."""
    from rsl_rl.utils.checkpoints import find_checkpoint

    found: List[Tuple[Arguments, Path]] = []
    for args in asked:
        assert args.run is not None  # parse() was told to find one
        path = find_checkpoint(args.run, args.flags.checkpoint)
        if any(path.samefile(other) for _, other in found):
            raise ValueError(f"{path} is asked for twice; name each run and each checkpoint once")
        found.append((args, path))
    return found


def load(found: Sequence[Tuple[Arguments, Path]]) -> List[Candidate]:
    """Load every checkpoint, so that nothing is judged before all are known to be sound."""
    from rsl_rl.runners.loading import load_policy
    from rsl_rl.tasks.evaluation import for_evaluation
    from rsl_rl.utils.checkpoints import which_of
    from rsl_rl.utils.seeding import require_device

    candidates, several_runs = [], len({args.run for args, _ in found}) > 1
    for (flags, cfg, run), path in found:
        assert run is not None
        require_device("sim_device", cfg.sim_device)
        env_cfg = for_evaluation(cfg.env, flags.num_envs, flags.seconds, flags.pushes)
        env = env_cfg.build(cfg.sim_device, seed=cfg.seed)  # tells the policy's sizes; each judgement builds its own
        loaded = load_policy(cfg, env, run, which_of(path))
        name = f"{run.name}/{path.stem}" if several_runs else path.stem
        candidates.append(Candidate(name, loaded, env_cfg, cfg.sim_device))
    return candidates


def place_of_report(asked: str, found: Sequence[Tuple[Arguments, Path]]) -> Optional[Path]:
    """Return where the report goes, None for nowhere; a ValueError where it cannot."""
    from rsl_rl.utils.checkpoints import which_of

    if asked == "none":
        return None
    if not asked:
        first = found[0][1]
        name = "comparison" if len(found) > 1 else f"evaluation_{which_of(first)}"
        return first.with_name(f"{name}.html")
    path = Path(asked)
    if path.is_dir() or not path.parent.is_dir():
        raise ValueError(f"--report {asked} is no file in a folder that exists; give a name such as report.html")
    return path


def judge(candidate: Candidate, flags: Any, seed: int) -> "Judgement":
    """Let robots walk once a seed; every candidate gets the same robots and commands."""
    from rsl_rl.tasks.evaluation import Judgement, observe

    name, loaded, env_cfg, device = candidate
    envs = (env_cfg.build(device, seed=seed + i) for i in range(flags.num_seeds))
    walks = [(observe(env, loaded.policy, flags.seconds), tuple(env.sim.foot_names)) for env in envs]
    repetitions, feet = [walk for walk, _ in walks], walks[0][1]
    return Judgement(name, str(loaded.checkpoint), loaded.env_steps, env_cfg, feet, repetitions)


def print_tables(judgements: Sequence["Judgement"], conditions: str) -> None:
    from rich.console import Console
    from rich.table import Table

    names, limits = [one.name for one in judgements], judgements[0].env_cfg.gate
    spread = ", means over the seeds with 95 % intervals" if judgements[0].intervals else ""
    whole = Table(title=f"{judgements[0].checkpoint if len(names) == 1 else 'side by side'}: {conditions}{spread}")
    bins = Table(title="Tracking errors by command: velocity in m/s, yaw rate in rad/s")
    for table, heads in ((whole, [*(names if len(names) > 1 else ["mean"]), "gate"]), (bins, names)):
        table.add_column("", no_wrap=True)
        for head in heads:
            table.add_column(head, justify="right", overflow="fold")
    for number in judgements[0].numbers:
        values = [f"{one.numbers[number]:.4f}{interval(one, number)}" for one in judgements]
        whole.add_row(number, *values, f"<= {limits[number]}" if number in limits else "")
    for cause in (cause for cause in judgements[0].falls if any(one.falls.get(cause) for one in judgements)):
        whole.add_row(f"falls: {cause}", *(f"{one.falls.get(cause, 0.0):.4f}" for one in judgements), "")
    for rows in zip(*(one.tracking for one in judgements)):
        errors = [f"{row.lin_vel_error:.3f}, {row.yaw_rate_error:.3f}" for row in rows]
        bins.add_row(f"{rows[0].axis} {rows[0].low:+.2f} to {rows[0].high:+.2f}", *errors)
    for table in (whole, bins):
        Console().print(table)


def print_verdicts(judgements: Sequence["Judgement"]) -> None:
    from rsl_rl.tasks.evaluation import differences
    from rsl_rl.tasks.report import DIFFERENT

    if differences(judgements):
        print("note:", DIFFERENT.format(", ".join(differences(judgements))))
    for one in judgements:
        whose = f"{one.name}: " if len(judgements) > 1 else ""
        print(f"{whose}gate passed" if not one.misses else f"{whose}gate missed: {'; '.join(one.misses)}")


def interval(judgement: "Judgement", number: str) -> str:
    """Return a line below the mean, or nothing of a single seed."""
    return "\n{:.3f}..{:.3f}".format(*judgement.intervals[number]) if judgement.intervals else ""


def write_report(path: Path, task: str, conditions: str, judgements: Sequence["Judgement"]) -> str:
    """Write the report and return a line on it; a full disk costs the report and not the results."""
    from rsl_rl.tasks.report import report_html
    from rsl_rl.utils.files import write_whole

    try:
        write_whole(path, report_html(f"{task}: evaluation", f"{conditions}.", judgements).encode())
    except OSError as error:
        return f"no report: {error}"
    return f"report: {path}"


def result_of(judgements: Sequence["Judgement"]) -> Dict[str, Any]:
    """Return what the last line says: the first checkpoint, and all under "checkpoints" where there are several."""
    results = [finite(describe(one)) for one in judgements]
    return {**results[0], "checkpoints": results} if len(results) > 1 else results[0]


def describe(judgement: "Judgement") -> Dict[str, Any]:
    return {
        **judgement.numbers,
        "env_steps": judgement.env_steps,
        "checkpoint": judgement.checkpoint,
        "gate_passed": not judgement.misses,
        "num_seeds": len(judgement.repetitions),
        "intervals": judgement.intervals,
        "falls": judgement.falls,
        "tracking": [one._asdict() for one in judgement.tracking],
    }


def finite(value: Any) -> Any:
    """Return a value with None for what JSON has no number for."""
    if isinstance(value, dict):
        return {name: finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
