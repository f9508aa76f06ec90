"""Numbers that describe how robots walk."""

from __future__ import annotations

from typing import Dict

import torch
from torch import Tensor

from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.tasks.robot_state import RobotState
from rsl_rl.tasks.robots import Robot

_GRAVITY = 9.81  # [m/s^2]


class GaitMeter:
    """An observer of :class:`LeggedRobot` that sums over all robots and steps on the device and is read once at the
    end."""

    NAMES = (
        "fall_rate",
        "lin_vel_error",
        "yaw_rate_error",
        "action_rate",
        "mean_torque",
        "torque_saturation",
        "foot_slip",
        "swing_height",
        "step_frequency",
        "duty_factor",
        "cost_of_transport",
    )

    def __init__(self, cfg: LeggedRobotConfig, robot: Robot):
        self._cfg, self._foot_radius = cfg, robot.foot_radius
        self._sums: Dict[str, Tensor] = {}
        self._steps = 0

    def __call__(self, state: RobotState, done: Tensor) -> None:
        """Take in one step of N robots, those that end in it included."""
        if self._steps == 0:
            self._swing_height = torch.zeros_like(state.air_time)  # highest point of each running swing [m]
        self._steps += 1
        self._num_envs, self._num_joints = state.action.shape
        contact = state.foot_contact
        height = state.foot_pos[:, :, 2] - self._foot_radius
        self._swing_height = torch.maximum(self._swing_height, height)
        self._add("falls", done)
        self._add("lin_vel_error", (state.command[:, :2] - state.base_lin_vel[:, :2]).norm(dim=1))
        self._add("yaw_rate_error", (state.command[:, 2] - state.base_ang_vel[:, 2]).abs())
        self._add("action_change", (state.action - state.previous_action).square())
        self._add("torque", state.joint_torque.abs())
        self._add("saturated", state.joint_torque.abs() >= 0.999 * state.sim.torque_limits)
        self._add("slip", state.foot_vel[:, :, :2].norm(dim=-1) * contact)
        self._add("contact", contact)
        self._add("touchdowns", state.foot_touchdown)
        self._add("swing_height", self._swing_height * state.foot_touchdown)
        self._add("work", (state.joint_torque * state.joint_vel).abs() * state.control_dt)
        self._add("distance", state.base_lin_vel[:, :2].norm(dim=1) * state.control_dt)
        self._add("weight", state.sim.total_mass * _GRAVITY / self._num_envs)
        self._swing_height = torch.where(contact, torch.zeros_like(height), self._swing_height)

    def _add(self, name: str, value: Tensor) -> None:
        total = value.sum(dtype=torch.float64)
        self._sums[name] = self._sums[name] + total if name in self._sums else total

    def result(self) -> Dict[str, float]:
        """Return the gate's numbers and the gait's; see :func:`rsl_rl.tasks.evaluation.evaluate` for units."""
        total = {name: float(value) for name, value in self._sums.items()}
        samples, feet = self._steps * self._num_envs, self._swing_height.shape[1]
        seconds = samples * self._cfg.sim.control_dt  # of robot time
        mean_weight = total["weight"] / self._steps  # [N]
        return {
            "fall_rate": total["falls"] / self._num_envs,
            "lin_vel_error": total["lin_vel_error"] / samples,
            "yaw_rate_error": total["yaw_rate_error"] / samples,
            "action_rate": (total["action_change"] / samples / self._num_joints) ** 0.5
            * self._cfg.control.action_scale,
            "mean_torque": total["torque"] / samples / self._num_joints,
            "torque_saturation": total["saturated"] / samples / self._num_joints,
            "foot_slip": total["slip"] / max(total["contact"], 1.0),
            "swing_height": total["swing_height"] / max(total["touchdowns"], 1.0),
            "step_frequency": total["touchdowns"] / feet / seconds,
            "duty_factor": total["contact"] / feet / samples,
            "cost_of_transport": total["work"] / (mean_weight * max(total["distance"], 1e-9)),
        }
