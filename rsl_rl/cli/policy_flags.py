"""Flags of the commands that run a policy of any program, --policy FILE --robot go2|FILE.xml."""

from __future__ import annotations

from pathlib import Path
from typing import Any, List, Optional, Sequence

from rsl_rl.cli.command_line import reject_changed_flags
from rsl_rl.cli.errors import FlagParser, fail, usage_errors


def names_policy(argv: Sequence[str]) -> bool:
    """Return whether a command line has --policy."""
    return any(word.partition("=")[0] == "--policy" for word in argv)


def reject_policy_flags(flags: Any) -> None:
    """End the program if flags of --policy are given without it."""
    with usage_errors():
        reject_changed_flags(flags, "it belongs to --policy", "contract", "set", "robot")


def with_task_of_robot(argv: Sequence[str]) -> List[str]:
    """Return flags with the task of --robot, if there is no --task: that of the robot on flat ground.

    For a robot in a file it is that of the Go2, whose conditions and commands then are the robot's.
    """
    parser = FlagParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--robot")
    parser.add_argument("--task")
    known, _ = parser.parse_known_args(argv)
    if known.task is None and known.robot is None:
        fail("--policy needs the robot: add --robot go2, --robot FILE.xml, or --task")
    if known.task is not None:
        return list(argv)
    return [*argv, "--task", "go2_flat" if robot_file(known.robot) is not None else f"{known.robot}_flat"]


def robot_file(robot: str) -> Optional[Path]:
    """Return the file of --robot, or None for a name."""
    path = Path(robot)
    return path if path.suffix.lower() in (".xml", ".urdf", ".mjcf") or path.name != robot else None
