"""Limit how fast the velocity command that a policy reads may change."""

from __future__ import annotations

from typing import Dict, Mapping

import torch
from torch import Tensor

from rsl_rl.config.command_limit import CommandLimitConfig
from rsl_rl.tasks.mdp.context import TaskContext


class CommandLimit:
    """Let ``state.command`` follow ``state.requested_command`` with limited acceleration, from zero in each episode.

    Without ``cfg.enabled``, or without limits, both are one tensor.
    """

    def __init__(self, cfg: CommandLimitConfig, task: TaskContext):
        self._cfg, self._state = cfg, task.state
        self._applies = cfg.enabled and cfg.limits
        rates = torch.tensor([cfg.max_lin_acc, cfg.max_lin_acc, cfg.max_yaw_acc], device=task.device)
        self._largest_change = (rates * task.control_dt).masked_fill_(rates == 0, torch.inf)  # [3] in a control step
        if self._applies:
            task.state.unlimited_command = torch.zeros_like(task.state.command)

    def step(self, started: Tensor) -> None:
        """Change the commands by one control step; ``started`` [N] marks robots whose episodes start."""
        if not self._applies:
            return
        command = self._state.command
        command.masked_fill_(started.unsqueeze(1), 0.0)
        change = self._state.requested_command - command
        command.add_(change.clamp_(-self._largest_change, self._largest_change))

    def describe(self) -> Dict[str, float]:
        """Return the limits for the description of an exported policy; nothing without limits."""
        cfg = self._cfg
        return {"max_lin_acc": cfg.max_lin_acc, "max_yaw_acc": cfg.max_yaw_acc} if cfg.limits else {}

    def state_dict(self) -> Dict[str, Tensor]:
        """Return the limited command."""
        return {"limited": self._state.command.clone()} if self._applies else {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what :meth:`state_dict` returned; a state without limits has the requested command only."""
        if self._applies:
            self._state.command.copy_(state.get("limited", self._state.requested_command))
