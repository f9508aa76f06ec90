"""Velocity commands: what the robots are asked for, and when they are asked for something else."""

from __future__ import annotations

from typing import Dict, Mapping

import torch
from torch import Tensor

from rsl_rl.config.task import CommandConfig


class VelocityCommands:
    """Draws commands [N, 3] (vx, vy [m/s], yaw rate [rad/s]) uniformly from their ranges, anew after a fixed time."""

    def __init__(self, cfg: CommandConfig, num_envs: int, control_dt: float, generator: torch.Generator):
        self._ranges = torch.tensor((cfg.lin_vel_x, cfg.lin_vel_y, cfg.yaw_rate), device=generator.device)
        self._standing_fraction = cfg.standing_fraction
        self._steps = max(1, round(cfg.resampling_time / control_dt))
        self._age = torch.zeros(num_envs, dtype=torch.long, device=generator.device)
        self._generator = generator

    def state_dict(self) -> Dict[str, Tensor]:
        """Return how long each robot has had its command."""
        return {"age": self._age.clone()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over what :meth:`state_dict` gave."""
        self._age.copy_(state["age"])

    def due(self) -> Tensor:
        """Let one control step pass and return where a new command is due: [N] bool."""
        self._age += 1
        return self._age >= self._steps

    def draw(self, command: Tensor, mask: Tensor) -> None:
        """Overwrite the commands of the robots marked in mask [N]."""
        uniform = torch.rand(len(command), 4, device=command.device, generator=self._generator)
        low, high = self._ranges.unbind(dim=1)
        drawn = low + (high - low) * uniform[:, :3]
        drawn *= (uniform[:, 3:] >= self._standing_fraction).to(drawn.dtype)
        command.copy_(torch.where(mask.unsqueeze(1), drawn, command))
        self._age.masked_fill_(mask, 0)
