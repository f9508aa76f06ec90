"""Domain randomisation: parameters of the robots, start states, pushes."""

from __future__ import annotations

import math
from typing import Sequence

import torch

from rsl_rl.config.mdp import ControlConfig, RandomizationConfig
from rsl_rl.sim.base import Sim
from rsl_rl.tasks.robot_state import RobotState
from rsl_rl.utils.uniform import Uniform


def randomize_models(
    sim: Sim, state: RobotState, cfg: RandomizationConfig, control: ControlConfig, generator: torch.Generator
) -> None:
    """Draw friction, payload and gains of each robot, once; ``state`` keeps the first two as observations."""
    num_envs, num_joints = state.action.shape
    gain_scales = (cfg.stiffness_scale,) * num_joints + (cfg.damping_scale,) * num_joints
    drawn = Uniform(num_envs, (cfg.friction, cfg.payload, *gain_scales), generator)()
    state.friction, state.payload = drawn[:, 0].clone(), drawn[:, 1].clone()
    stiffness_scale, damping_scale = drawn[:, 2:].split(num_joints, dim=1)
    sim.set_friction(state.friction)
    sim.set_root_payload(state.payload)
    sim.set_gains(control.stiffness * stiffness_scale, control.damping * damping_scale)


def start_distribution(
    cfg: RandomizationConfig, default_joint_pos: Sequence[float], num_envs: int, generator: torch.Generator
) -> Uniform:
    """Return the distribution of start states: heading [rad], linear and angular velocity of the trunk, and joint
    angles, [N, 7 + J]."""
    low, high = cfg.initial_joint_scale
    velocity = (-cfg.initial_velocity, cfg.initial_velocity)
    joints = [(low * angle, high * angle) for angle in default_joint_pos]
    return Uniform(num_envs, [(-math.pi, math.pi), *(velocity,) * 6, *joints], generator)


def push(sim: Sim, cfg: RandomizationConfig, control_dt: float, generator: torch.Generator) -> None:
    """Change the horizontal velocity of random robots; the mean time between pushes is ``push_interval``."""
    draw = torch.rand(sim.num_envs, 3, device=generator.device, generator=generator)
    pushed = draw[:, 2] < control_dt / cfg.push_interval
    change = draw.sub_(0.5).mul_(2 * cfg.push_velocity)
    change[:, 2] = 0.0
    sim.set_root_velocity(pushed, change.add_(sim.root_lin_vel), sim.root_ang_vel)
