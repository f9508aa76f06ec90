"""What the commands and events of a task can read and change."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Dict, List, Tuple

import torch
from torch import Tensor

from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.robots import Robot
from rsl_rl.sim.base import Sim
from rsl_rl.tasks.actuators import Actuator
from rsl_rl.tasks.robot_state import RobotState
from rsl_rl.utils.by_name import values_by_name


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
