"""Record states of robots, for plots and videos."""

from __future__ import annotations

from typing import Dict, List

import torch
from torch import Tensor

from rsl_rl.tasks.robot_state import RobotState


class Recorder:
    """An observer of :class:`LeggedRobot` that records every step of the first robots."""

    def __init__(self, num_robots: int, action_scale: Tensor):
        self._n = num_robots
        self._action_scale = action_scale  # [J] [rad] per unit of action
        self._steps: List[Dict[str, Tensor]] = []

    def __call__(self, state: RobotState, done: Tensor) -> None:
        """Record one step, before the resets."""
        sim = state.sim
        step = {
            "pose": torch.cat((sim.root_pos, sim.root_quat, sim.joint_pos), dim=1),  # [n, 7 + J]
            "command": state.requested_command,  # [n, 3] vx, vy [m/s], yaw rate [rad/s]
            "velocity": torch.cat(
                (state.base_lin_vel[:, :2], state.base_ang_vel[:, 2:]), dim=1
            ),  # [n, 3] the same, measured
            "base_height": state.base_height,  # [n] above the ground underneath [m]
            "foot_contact": state.foot_contact,  # [n, F]
            "target": state.default_joint_pos + self._action_scale * state.action,  # [n, J] [rad]
            "target_change": self._action_scale * (state.action - state.previous_action),  # [n, J] [rad] in this step
            "torque": state.joint_torque,  # [n, J] [N m]
            "done": done,  # [n]
        }
        self._steps.append({name: value[: self._n].clone() for name, value in step.items()})

    def result(self) -> Dict[str, Tensor]:
        """Return everything recorded, each [steps, n, ...], on the CPU."""
        return {name: torch.stack([step[name] for step in self._steps]).cpu() for name in self._steps[0]}
