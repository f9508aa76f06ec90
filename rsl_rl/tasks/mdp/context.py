"""What commands and events get: the parts of a task, and schedules, factors that change during the training."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Dict, List, Tuple, Union

import torch
from torch import Tensor

from rsl_rl.config.base import linear
from rsl_rl.config.mdp import ScheduleConfig
from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.robots import Robot
from rsl_rl.sim.base import Sim
from rsl_rl.tasks.actuators import Actuator
from rsl_rl.tasks.robot_state import RobotState
from rsl_rl.terrain import Levels
from rsl_rl.utils.registry import values_by_name
from rsl_rl.utils.tensors import Stored


@dataclass(frozen=True)
class TaskContext:
    """The parts of a task, the first argument of its commands and events."""

    cfg: LeggedRobotConfig
    robot: Robot
    sim: Sim
    state: RobotState
    actuator: Actuator
    generator: torch.Generator
    """Source of all random numbers of the task; its state is saved in checkpoints."""
    levels: Levels
    """Where the robots start."""
    observers: List[Callable[[RobotState, Tensor], None]] = field(default_factory=list)
    """Called in every step with the state and the mask of the episodes that end [N], before the resets."""
    _tensors: Dict[str, Tensor] = field(default_factory=dict, repr=False)

    @property
    def num_envs(self) -> int:
        return self.cfg.num_envs

    @property
    def device(self) -> torch.device:
        return self.sim.device

    @property
    def control_dt(self) -> float:
        """Control period [s]."""
        return self.cfg.sim.control_dt

    def values_of_joints(self, setting: str) -> Tuple[float, ...]:
        """Return a setting of ``env.control`` for each joint."""
        return values_by_name(getattr(self.cfg.control, setting), self.sim.joint_names, f"env.control.{setting}")

    def per_joint(self, setting: str) -> Tensor:
        """Return a setting of ``env.control`` for each joint, [J]; do not write to it."""
        if setting not in self._tensors:
            self._tensors[setting] = torch.tensor(self.values_of_joints(setting), device=self.device)
        return self._tensors[setting]


_MEMORY = 5.0
"""Time over which the tracking score is averaged [s]."""


class Schedule(Stored):
    """The factor of a :class:`ScheduleConfig`, updated in each control step, on the device without synchronisation."""

    stored = ("_progress", "score")

    def __init__(self, task: TaskContext, cfg: ScheduleConfig):
        self.cfg = cfg
        params = (term.params for term in task.cfg.rewards.terms.values())
        self._width = next((own["tracking_sigma"] for own in params if "tracking_sigma" in own), 0.25)
        self._rate = task.control_dt / _MEMORY
        self._progress = torch.full((), 0.0 if self.cfg.steps else 1.0, device=task.device)  # from 0 to 1
        self.score = torch.zeros((), device=task.device)  # tracking of the last seconds, from 0 to 1
        if self.cfg.steps:
            task.observers.append(self._advance)

    @property
    def factor(self) -> Tensor:
        """The present factor []."""
        return linear(self.cfg.start, self.cfg.end, self._progress)

    def _advance(self, state: RobotState, done: Tensor) -> None:
        grows: Union[Tensor, float] = 1.0
        if self.cfg.tracking > 0:
            lin_error = (state.command[:, :2] - state.base_lin_vel[:, :2]).square().sum(dim=1)
            yaw_error = (state.command[:, 2] - state.base_ang_vel[:, 2]).square()
            tracking = (lin_error.div(-self._width).exp() + yaw_error.div(-self._width).exp()) / 2
            self.score += self._rate * (tracking.nan_to_num().mean() - self.score)
            grows = (self.score > self.cfg.tracking).float()
        self._progress = (self._progress + grows / self.cfg.steps).clamp(max=1.0)
