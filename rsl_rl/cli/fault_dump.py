"""Show how a robot broke in training."""

from typing import TYPE_CHECKING, Any, Iterable, Sequence, Tuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rsl_rl.cli.command_line import Arguments, reject_changed_flags
from rsl_rl.cli.errors import usage_errors

if TYPE_CHECKING:
    from rsl_rl.evaluation.fault_plots import StepSummary


def show_fault_dump(args: Arguments) -> int:
    """Simulate the last steps of a robot that broke in training again; show a table, a plot and a video."""
    flags, cfg, run = args.flags, args.cfg, args.run
    assert run is not None  # parse() was told to find one
    with usage_errors():
        from rsl_rl.evaluation.fault_plots import headline, step_summaries, write_fault_report
        from rsl_rl.evaluation.fault_replay import describe_replay, find_fault_dump, load_fault_dump, replay_fault
        from rsl_rl.utils.seeding import require_device

        unused = ("checkpoint", "num_envs", "seconds", "command", "viewer", "keyboard")
        reject_changed_flags(flags, "--fault_dump shows a recorded fault", *unused)
        require_device("sim_device", cfg.sim_device)
        path = find_fault_dump(run, flags.fault_dump)
        dump = load_fault_dump(path, cfg.env)
        replay = replay_fault(dump, cfg.env, cfg.sim_device)

    print(f"replaying {path}")
    print(f"{headline(dump)}, iteration {dump.iteration}, step {dump.step}")
    print_table(STEP_COLUMNS, [step_cells(moment) for moment in step_summaries(dump, replay)])
    print(describe_replay(dump, replay))
    if dump.values:
        print_table(("term", "value"), [(name, shown_value(value)) for name, value in dump.values.items()])
    with usage_errors():
        for line in write_fault_report(dump, replay, path, flags.video):
            print(line)
    return 0


STEP_COLUMNS = (
    "time left [s]",
    "trunk height [m]",
    "trunk speed [m/s]",
    "fastest joint [rad/s]",
    "",
    "target error [rad]",
    "physics",
)


def step_cells(moment: "StepSummary") -> Tuple[str, ...]:
    """Return a row of the table with STEP_COLUMNS."""
    numbers = (moment.height, moment.speed, moment.joint_speed, moment.target_error)
    height, speed, joint_speed, target_error = ("-" if number is None else f"{number:.3g}" for number in numbers)
    return (f"{moment.time_left:.3f}", height, speed, joint_speed, moment.joint, target_error, moment.broke)


def shown_value(value: Any) -> str:
    """Format a number or a list of numbers."""
    if isinstance(value, list):
        return " ".join(map(shown_value, value))
    return f"{value:.4g}" if isinstance(value, (int, float)) else str(value)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    table = Table()
    for column in columns:
        table.add_column(Text(column), justify="right" if column.endswith("]") else "left")  # no markup
    for row in rows:
        table.add_row(*map(Text, row))
    Console().print(table)
