"""Tables and results of an evaluation on the console."""

from typing import TYPE_CHECKING, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rsl_rl.evaluation.evaluate import EvalResult


def print_tables(eval_results: Sequence["EvalResult"], conditions: str) -> None:
    names, limits = [one.name for one in eval_results], eval_results[0].env_cfg.gate
    spread = ", means over the seeds with 95 % intervals" if eval_results[0].intervals else ""
    subject = eval_results[0].checkpoint if len(names) == 1 else "side by side"
    whole = Table(title=Text(f"{subject}: {conditions}{spread}"))  # a Text has no markup
    bins = Table(title="Tracking errors by command: velocity in m/s, yaw rate in rad/s")
    for table, heads in ((whole, [*(names if len(names) > 1 else ["mean"]), "gate"]), (bins, names)):
        table.add_column("", no_wrap=True)
        for head in heads:
            table.add_column(Text(head), justify="right", overflow="fold")
    for number in eval_results[0].metrics:
        values = [f"{one.metrics[number]:.4f}{interval(one, number)}" for one in eval_results]
        whole.add_row(number, *values, f"<= {limits[number]}" if number in limits else "")
    for cause in (cause for cause in eval_results[0].falls if any(one.falls.get(cause) for one in eval_results)):
        whole.add_row(f"falls: {cause}", *(f"{one.falls.get(cause, 0.0):.4f}" for one in eval_results), "")
    for rows in zip(*(one.tracking for one in eval_results)):
        errors = [f"{row.lin_vel_error:.3f}, {row.yaw_rate_error:.3f}" for row in rows]
        bins.add_row(f"{rows[0].axis} {rows[0].low:+.2f} to {rows[0].high:+.2f}", *errors)
    for table in (whole, bins):
        Console().print(table)


def interval(eval_result: "EvalResult", number: str) -> str:
    """Return the confidence interval as a second line, or an empty text for a single seed."""
    return "\n{:.3f}..{:.3f}".format(*eval_result.intervals[number]) if eval_result.intervals else ""


def print_gate_results(eval_results: Sequence["EvalResult"]) -> None:
    """Print a line for each checkpoint: whether it passes the gate, and what it misses."""
    from rsl_rl.evaluation.evaluate import differences
    from rsl_rl.evaluation.report import DIFFERENT

    if differences(eval_results):
        print("note:", DIFFERENT.format(", ".join(differences(eval_results))))
    for one in eval_results:
        whose = f"{one.name}: " if len(eval_results) > 1 else ""
        print(f"{whose}gate passed" if not one.unmet else f"{whose}gate missed: {'; '.join(one.unmet)}")
