"""A list of velocity commands by time: all robots get each command at once when its time has come."""

from __future__ import annotations

import math
from pathlib import Path
from typing import List, NamedTuple, Sequence, Tuple

import torch
from torch import Tensor

from rsl_rl.tasks.legged_robot import LeggedRobot
from rsl_rl.tasks.mdp.commands import CommandSource
from rsl_rl.utils.files import read_file

LONGEST = 86_400.0
"""Latest time of a command [s]."""


class TimedCommand(NamedTuple):
    """A command and the time from which it holds."""

    time: float  # [s]
    command: Tuple[float, float, float]  # vx, vy [m/s], yaw rate [rad/s]


def read_commands(path: Path) -> List[TimedCommand]:
    """Read a file with a line "time vx vy yaw_rate" for each command; a line that starts with # is a comment.

    Numbers are separated by spaces or commas. A line that is wrong is a ValueError.
    """
    try:
        lines = read_file(path, largest=10_000_000).decode().splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not a text file; give one with a line 'time vx vy yaw_rate' for each command"
        ) from error
    commands: List[TimedCommand] = []
    for i, line in enumerate(lines, start=1):
        words = line.replace(",", " ").split()
        if not words or words[0].startswith("#"):
            continue
        try:
            time, vx, vy, yaw_rate = map(float, words)
        except ValueError:
            time = vx = vy = yaw_rate = math.nan
        if not all(map(math.isfinite, (time, vx, vy, yaw_rate))):
            raise ValueError(f"{path}, line {i}: {line.strip()[:60]!r}; give four numbers: time vx vy yaw_rate")
        if time < (commands[-1].time if commands else 0.0):
            raise ValueError(f"{path}, line {i}: the time {time:g} s is too early; give times from 0 on that increase")
        if time > LONGEST:
            raise ValueError(f"{path}, line {i}: the time {time:g} s is too late; give times up to {LONGEST:g} s")
        commands.append(TimedCommand(time, (vx, vy, yaw_rate)))
    if not commands:
        raise ValueError(f"{path} has no commands; give a line 'time vx vy yaw_rate' for each")
    return commands


class ScriptedCommands(CommandSource):
    """Give all robots the commands of a script, zero before the first; the time starts with the first step."""

    def __init__(self, env: LeggedRobot, script: Sequence[TimedCommand]):
        super().__init__(env.context, env.commands.sources["velocity"].ranges, env.cfg.commands.resampling_time)
        dt, device = env.context.control_dt, env.context.device
        self._starts = torch.tensor([0, *(math.ceil(entry.time / dt - 1e-6) for entry in script)], device=device)
        self._table = torch.tensor([(0.0, 0.0, 0.0), *(entry.command for entry in script)], device=device)
        self._step = 0

    def due(self) -> Tensor:
        self._step += 1
        return super().due()

    def sample(self) -> Tensor:
        """Return the command of the present step, [N, 3]."""
        present = (self._starts <= self._step).sum() - 1
        return self._table[present].expand(len(self._age), -1)

    def draw(self, command: Tensor, mask: Tensor) -> None:
        command.copy_(self.sample())
