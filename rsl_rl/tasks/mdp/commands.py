"""Velocity commands."""

from __future__ import annotations

from typing import Dict, Mapping

import torch
from torch import Tensor

from rsl_rl.config.mdp import CommandConfig
from rsl_rl.utils.cpu_checks import none_on_cpu
from rsl_rl.utils.uniform import Uniform


class VelocityCommands:
    """Draw commands [N, 3] (vx, vy [m/s], yaw rate [rad/s]) uniformly from their ranges, again after a fixed time."""

    def __init__(self, cfg: CommandConfig, num_envs: int, control_dt: float, generator: torch.Generator):
        ranges = (cfg.lin_vel_x, cfg.lin_vel_y, cfg.yaw_rate)
        self._draw = Uniform(num_envs, (*ranges, (0.0, 1.0)), generator)
        self._standing_fraction = cfg.standing_fraction
        self._steps = max(1, round(cfg.resampling_time / control_dt))
        self._age = torch.zeros(num_envs, dtype=torch.long, device=generator.device)

    def state_dict(self) -> Dict[str, Tensor]:
        """Return the age of each robot's command."""
        return {"age": self._age.clone()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what :meth:`state_dict` returned."""
        self._age.copy_(state["age"])

    def due(self) -> Tensor:
        """Count one control step; return which robots need a new command, [N] bool."""
        self._age += 1
        return self._age >= self._steps

    def draw(self, command: Tensor, mask: Tensor) -> None:
        """Draw new commands for the robots marked in mask [N]."""
        drawn = self._draw()
        if none_on_cpu(mask):
            return
        drawn, chance = drawn.split([3, 1], dim=1)
        drawn = drawn.masked_fill(chance < self._standing_fraction, 0.0)
        torch.where(mask.unsqueeze(1), drawn, command, out=command)
        self._age.masked_fill_(mask, 0)
