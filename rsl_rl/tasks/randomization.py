"""How robots are made to differ, and how they are disturbed."""

from __future__ import annotations

from typing import Tuple

import torch
from torch import Tensor

from rsl_rl.config.task import ControlConfig, RandomizationConfig
from rsl_rl.sim.base import Sim
from rsl_rl.tasks.robot_state import RobotState


def uniform(shape: Tuple[int, ...], bounds: Tuple[float, float], generator: torch.Generator) -> Tensor:
    """Draw uniformly between two bounds."""
    return torch.rand(shape, device=generator.device, generator=generator).mul_(bounds[1] - bounds[0]).add_(bounds[0])


def randomize_models(
    sim: Sim, state: RobotState, cfg: RandomizationConfig, control: ControlConfig, generator: torch.Generator
) -> None:
    """Give each robot its friction, payload and gains, once; the state tells the critic the first two."""
    num_envs, num_joints = state.action.shape
    state.friction = uniform((num_envs,), cfg.friction, generator)
    state.payload = uniform((num_envs,), cfg.payload, generator)
    stiffness_scale = uniform((num_envs, num_joints), cfg.stiffness_scale, generator)
    damping_scale = uniform((num_envs, num_joints), cfg.damping_scale, generator)
    sim.set_friction(state.friction)
    sim.set_root_payload(state.payload)
    sim.set_gains(control.stiffness * stiffness_scale, control.damping * damping_scale)


def push(sim: Sim, cfg: RandomizationConfig, control_dt: float, generator: torch.Generator) -> None:
    """Change the horizontal velocity of a few robots at random, each on average once per ``push_interval``."""
    draw = torch.rand(sim.num_envs, 3, device=generator.device, generator=generator)
    pushed = draw[:, 2] < control_dt / cfg.push_interval
    change = torch.zeros_like(sim.root_lin_vel)
    change[:, :2] = (2 * draw[:, :2] - 1) * cfg.push_velocity
    sim.set_root_velocity(pushed, sim.root_lin_vel + change, sim.root_ang_vel)
