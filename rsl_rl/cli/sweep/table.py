"""The table of a sweep."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Dict, List, NamedTuple, Sequence

from rsl_rl.cli.errors import print_line
from rsl_rl.cli.result_table import ResultTable, summarize

if TYPE_CHECKING:
    from rsl_rl.cli.sweep.study import SweepSettings, TrialResult


class Target(NamedTuple):
    """The number that a sweep compares."""

    metric: str  # of metrics.jsonl
    minimize: bool


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
    names = short_names([parameter.field for parameter in settings.space])
    rows = []
    for trial in results:
        summary = summarize(list(trial.targets.values()))
        interval = None if summary.low is None else f"{summary.low:.4g}..{summary.high:.4g}"
        values = [trial.values.get(field) for field in names]
        rows.append([trial.number, *values, summary.mean, interval, trial.state])
    best = "lowest" if target.minimize else "highest"
    title = f"{folder.name}: {best} {target.metric} first, means over {len(settings.seeds)} seed(s)"
    ResultTable(["trial", *names.values(), target.metric, "95 % interval", "state"], rows).print(title)
    for trial in results:
        if trial.message:
            print_line(f"trial {trial.number} {trial.state}: {trial.message}")
    print_line(f"table: {folder / 'sweep.csv'} and {folder / 'sweep.md'}")


def short_names(fields: Sequence[str]) -> Dict[str, str]:
    """Return the last part of each field's path; the whole path where two are alike."""
    last: List[str] = [field.rpartition(".")[2] for field in fields]
    return {field: name if last.count(name) == 1 else field for field, name in zip(fields, last)}
