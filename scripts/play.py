"""Watch and export a trained policy: `python scripts/play.py --task go2_flat`.

Writes a film (play.mp4), a picture of commanded against measured velocity (play.png) and the policy for the robot
(TorchScript and ONNX, with a description of its inputs and outputs) into the run's exported/ folder.

With --postmortem it shows instead how a robot broke in training: physics repeats its last control steps.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Optional, Sequence, Tuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.command_line import Arguments, parse, usage_errors

if TYPE_CHECKING:
    from rsl_rl.runners import OnPolicyRunner
    from rsl_rl.tasks.legged_robot import LeggedRobot
    from rsl_rl.tasks.postmortem_plot import Moment


@dataclass(frozen=True)
class Flags:
    """What to show, apart from the config."""

    load_run: str = "-1"
    """Folder of the run; -1 for the newest."""
    checkpoint: int = -1
    """Iteration to play; -1 for the newest."""
    num_envs: int = 4
    """Robots in the film."""
    seconds: float = 10.0
    """Length of the film [s]."""
    command: Optional[Tuple[float, float, float]] = None
    """Forward and left velocity [m/s] and yaw rate [rad/s] for all robots; without it, the task's own commands."""
    video: bool = True
    """Make the film."""
    postmortem: Optional[str] = None
    """What a training has written of a robot that broke: a file, or its name in the run's postmortem/ folder. Nothing
    else is played, and nothing exported."""


def main(args: Arguments) -> int:
    if args.flags.postmortem is not None:
        return show_postmortem(args)
    flags, cfg, run = args.flags, args.cfg, args.run
    assert run is not None  # parse() was told to find one
    with usage_errors():
        from rsl_rl.runners.loading import load_policy
        from rsl_rl.tasks.replay import for_replay, replay, write_replay
        from rsl_rl.utils.seeding import require_device

        if flags.num_envs < 1 or flags.seconds <= 0:
            raise ValueError(f"--num_envs {flags.num_envs} and --seconds {flags.seconds}: give positive numbers")
        require_device("sim_device", cfg.sim_device)
        env = for_replay(cfg.env, flags.num_envs, flags.seconds, flags.command).build(cfg.sim_device, seed=cfg.seed)
        loaded = load_policy(cfg, env, run, flags.checkpoint)

    folder = run / "exported"
    print(f"playing {loaded.checkpoint}")
    for line in export(loaded.runner, cfg.task, env, folder):
        print(line)
    recording = replay(env, loaded.policy, flags.seconds)
    for line in write_replay(recording, env, folder, flags.video):
        print(line)
    return 0


def export(runner: "OnPolicyRunner", task: str, env: "LeggedRobot", folder: Path) -> Iterator[str]:
    """Write the policy for the robot in every format there is, and its description; yield a line on each."""
    from rsl_rl.exporters import describe_module, policy_module

    yield f"policy: {runner.export_policy_to_jit(folder)} (TorchScript)"
    interface = env.describe_interface(runner.policy_cfg.actor_groups)
    content = {"format": 1, "task": task, **describe_module(policy_module(runner.alg.actor_critic)), **interface}
    description = folder / "policy.json"
    description.write_text(json.dumps(content, indent=2) + "\n")
    yield f"policy: {description} (inputs, outputs, joint order, scales, gains)"
    try:
        yield f"policy: {runner.export_policy_to_onnx(folder, metadata=content)} (ONNX)"
    except ImportError as error:
        yield f"no ONNX file: {error}; the extra 'export' brings what it needs"


def show_postmortem(args: Arguments) -> int:
    """Repeat the last steps of a robot that broke in training and show them as a table, a picture and a film."""
    flags, cfg, run = args.flags, args.cfg, args.run
    assert run is not None  # parse() was told to find one
    with usage_errors():
        from rsl_rl.tasks.postmortem import find_case, load_case, repeat, verdict
        from rsl_rl.tasks.postmortem_plot import headline, moments, write_postmortem
        from rsl_rl.utils.seeding import require_device

        changed = [
            f"--{name}"
            for name in ("checkpoint", "num_envs", "seconds", "command")
            if getattr(flags, name) != getattr(Flags, name)
        ]
        if changed:
            raise ValueError(f"--postmortem shows what was recorded; leave out {', '.join(changed)}")
        require_device("sim_device", cfg.sim_device)
        path = find_case(run, flags.postmortem)
        case = load_case(path, cfg.env)
        repetition = repeat(case, cfg.env, cfg.sim_device)

    print(f"repeating {path}")
    print(f"{headline(case)}, iteration {case.iteration}, step {case.step}")
    print_table(MOMENT_COLUMNS, [moment_cells(moment) for moment in moments(case, repetition)])
    print(verdict(case, repetition))
    if case.values:
        print_table(("term", "value"), [(name, shown_value(value)) for name, value in case.values.items()])
    with usage_errors():
        for line in write_postmortem(case, repetition, path, flags.video):
            print(line)
    return 0


MOMENT_COLUMNS = (
    "before the end [s]",
    "trunk height [m]",
    "trunk speed [m/s]",
    "fastest joint [rad/s]",
    "",
    "off target [rad]",
    "physics broke",
)


def moment_cells(moment: "Moment") -> Tuple[str, ...]:
    """Return a row below MOMENT_COLUMNS."""
    numbers = (moment.height, moment.speed, moment.joint_speed, moment.target_error)
    height, speed, joint_speed, target_error = ("-" if number is None else f"{number:.3g}" for number in numbers)
    return (f"{moment.time_left:.3f}", height, speed, joint_speed, moment.joint, target_error, moment.broke)


def shown_value(value: Any) -> str:
    """Return a number, or a list of numbers, as text."""
    if isinstance(value, list):
        return " ".join(map(shown_value, value))
    return f"{value:.4g}" if isinstance(value, (int, float)) else str(value)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for column in columns:
        table.add_column(Text(column), justify="right" if column.endswith("]") else "left")  # no markup
    for row in rows:
        table.add_row(*map(Text, row))
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main(parse(Flags, __doc__ or "", from_run=True)))
