"""Say what the rewards of a task pay, before any training: `rsl-rl audit --task go2_flat`. The last line is JSON.

A reference walk and motions that only seem to follow the command, such as standing and stepping in place, earn the
rewards of the task under many commands. Prints what each earns, up to which command standing pays as much as walking,
and which reward term is at fault. Takes some seconds on one core.
"""

import importlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, List, Sequence

from rsl_rl.cli.command_line import Arguments, RunFlags, parse
from rsl_rl.cli.errors import usage_errors
from rsl_rl.cli.evaluate import report_file
from rsl_rl.cli.experiments import Experiments
from rsl_rl.cli.tables import print_table

if TYPE_CHECKING:
    from rsl_rl.evaluation.audit import Audit
    from rsl_rl.evaluation.conditions import ActingPolicy


@dataclass(frozen=True)
class Flags(RunFlags):
    """Flags of an audit; all other flags are fields of the config."""

    load_run: str = ""
    """Folder of a run, -1 for the newest: its policy takes the place of the reference walk, with the run's config."""
    report: str = "none"
    """File of an HTML report with plots, in an existing folder; none: no report."""


def main(argv: Sequence[str]) -> int:
    has_run = any(word.partition("=")[0].replace("-", "_") == "__load_run" for word in argv)
    args = parse(Flags, __doc__ or "", from_run=has_run, argv=argv)
    cfg, flags = args.cfg, args.flags
    with usage_errors():
        from rsl_rl.evaluation.audit import as_json, audit, report_html
        from rsl_rl.evaluation.evaluate import finite
        from rsl_rl.utils.files import atomic_write

        path = None if flags.report == "none" else report_file(flags.report)
        result = audit(cfg.env, load_reference(args) if has_run else None)
        print_tables(result)
        for line in summary(result):
            print(line)
        if path is not None:
            atomic_write(path, report_html(cfg.task, result).encode())
            print(f"report: {path}")
    print(json.dumps(finite({"task": cfg.task, **as_json(result)})))
    return 0


def load_reference(args: Arguments) -> "ActingPolicy":
    """Load the policy of --load_run."""
    from rsl_rl.evaluation.audit import for_policy
    from rsl_rl.runners.loading import load_policy

    env = for_policy(args.cfg.env, 1).build("cpu", seed=0)
    return load_policy(args.cfg, env, args.existing_run, args.flags.checkpoint).policy


def print_tables(result: "Audit") -> None:
    """Print the income of each motion under each command, and its terms under one."""
    from rsl_rl.evaluation.audit import reference_row, tables

    titles = ["Income per second by command: velocity in m/s, yaw rate in rad/s"]
    row = reference_row(result)
    titles.append(f"Income per second by term, {row.direction} {row.size:g}")
    for title, rows in zip(titles, tables(result)):
        print_table(title, rows)


def summary(result: "Audit") -> List[str]:
    """Return the dead zones and the complaints in lines."""
    from rsl_rl.evaluation.audit import unit

    def listed(zones: Any) -> str:
        return ", ".join(f"{name} {zone:.2f} {unit(name)}" for name, zone in zones.items())

    lines = [f"predicted dead zone: {listed(result.predicted)}"]
    if result.measured:
        lines.append(f"dead zone of the policy: {listed(result.measured)}")
    lines += [f"complaint: {finding.sentence}" for finding in result.findings]
    return [*lines, *(["no complaint about the rewards"] if not result.findings else [])]


def audit_lines(env_cfg: Any) -> List[str]:
    """Return the summary of the audit of a task for other commands; one that cannot be audited is a ValueError."""
    from rsl_rl.evaluation.audit import audit

    return [f"audit: {line}" for line in summary(audit(env_cfg))]


def audit_package(folder: Path, task: str) -> List[str]:
    """Return the summary of the audit of a task in a package that was just written to a folder."""
    known = set(sys.modules)
    sys.path.insert(0, str(folder.parent.resolve()))
    importlib.invalidate_caches()
    try:
        return audit_lines(Experiments().load(task)().env)
    except ValueError as error:
        return [f"no audit: {error}"]
    finally:
        sys.path.pop(0)
        for name in set(sys.modules) - known:
            if name.partition(".")[0] == folder.name:
                del sys.modules[name]
