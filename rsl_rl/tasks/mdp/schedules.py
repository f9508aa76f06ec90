"""Schedules: factors that change during the training, for ranges of randomisation and of commands."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Union

import torch
from torch import Tensor

from rsl_rl.config.terms import ScheduleConfig
from rsl_rl.tasks.mdp.context import TaskContext
from rsl_rl.tasks.robot_state import RobotState
from rsl_rl.utils.config_io import from_dict

_MEMORY = 5.0
"""Time over which the tracking score is averaged [s]."""


class Schedule:
    """The factor of a :class:`ScheduleConfig`, updated in each control step, on the device without synchronisation."""

    def __init__(self, task: TaskContext, cfg: Union[ScheduleConfig, Mapping[str, Any]], where: str):
        self.cfg = cfg if isinstance(cfg, ScheduleConfig) else from_dict(ScheduleConfig, cfg, where)
        self._width = self.cfg.tracking_sigma
        self._rate = task.control_dt / _MEMORY
        self._progress = torch.full((), 0.0 if self.cfg.steps else 1.0, device=task.device)  # from 0 to 1
        self.score = torch.zeros((), device=task.device)  # tracking of the last seconds, from 0 to 1
        if self.cfg.steps:
            task.observers.append(self._advance)

    @property
    def factor(self) -> Tensor:
        """The present factor []."""
        return self.cfg.start + (self.cfg.end - self.cfg.start) * self._progress

    def _advance(self, state: RobotState, done: Tensor) -> None:
        grows: Union[Tensor, float] = 1.0
        if self.cfg.tracking > 0:
            lin_error = (state.command[:, :2] - state.base_lin_vel[:, :2]).square().sum(dim=1)
            yaw_error = (state.command[:, 2] - state.base_ang_vel[:, 2]).square()
            tracking = (lin_error.div(-self._width).exp() + yaw_error.div(-self._width).exp()) / 2
            self.score += self._rate * (tracking.nan_to_num().mean() - self.score)
            grows = (self.score > self.cfg.tracking).float()
        self._progress = (self._progress + grows / self.cfg.steps).clamp(max=1.0)

    def state_dict(self) -> Dict[str, Tensor]:
        """Return progress and tracking score."""
        return {"progress": self._progress.clone(), "score": self.score.clone()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what :meth:`state_dict` returned."""
        self._progress.copy_(state["progress"])
        self.score.copy_(state["score"])
