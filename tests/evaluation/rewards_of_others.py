"""Rewards with known faults, after public reports of robots that stand, step in place or ignore small commands."""

from dataclasses import replace

import torch
from torch import Tensor

from configs.g1_flat import biped_task
from configs.go2_flat import flat_task
from rsl_rl.config.mdp import RewardConfig, RewardTerm

NAME = __name__


def with_ranges(task, x=(0.0, 0.0), y=(0.0, 0.0), yaw=(0.0, 0.0)):
    """The task with other ranges of commands, such as few directions to save time."""
    return replace(task, commands=replace(task.commands, lin_vel_x=x, lin_vel_y=y, yaw_rate=yaw))


def wide_tracking_task(sigma: float = 0.25):
    """A Go2 whose only positive terms track the command, with a wide kernel, as in the joystick task of a small
    humanoid whose policies stand still below 0.2 m/s (google-deepmind/mujoco_playground, 361)."""
    task, width = flat_task(), {"tracking_sigma": sigma}
    terms = {
        "track_lin_vel": RewardTerm(1.5, params=width),
        "track_yaw_rate": RewardTerm(0.8, params=width),
        "lin_vel_z": RewardTerm(-2.0),
        "ang_vel_xy": RewardTerm(-0.05),
        "orientation": RewardTerm(-5.0),
        "torques": RewardTerm(-2e-4),
        "energy": RewardTerm(-1e-3),
        "action_rate": RewardTerm(-0.01),
        "foot_slip": RewardTerm(-0.1),
    }
    return replace(task, commands=replace(task.commands, dead_zone=0.02), rewards=RewardConfig(terms))


def swing_time(state, *, low: float, high: float, least_speed: float) -> Tensor:
    """Number of feet whose swing has lasted from ``low`` to ``high`` [s], if there is a command and the trunk moves."""
    counts = ((state.air_time > low) & (state.air_time < high) & ~state.foot_contact).sum(dim=1, dtype=torch.float32)
    wanted = state.command.norm(dim=1) > 0.01
    return counts * wanted * (state.base_lin_vel[:, :2].norm(dim=1) >= least_speed)


def upright(state) -> Tensor:
    """1 for a vertical trunk."""
    return (-state.gravity[:, :2].square().sum(dim=1) / 0.05).exp()


def near_default(state) -> Tensor:
    """1 for the default pose."""
    return (-(state.joint_offset / 0.4).square().mean(dim=1)).exp()


def paid_steps_task(least_speed: float = 0.0):
    """A G1 that is paid for steps under any command, whether it moves or not, next to large terms that every upright
    robot gets, as in the task of a small biped that steps in place (pollen-robotics/microduck_rl, 46)."""
    task = biped_task()
    terms = {
        "track_lin_vel": RewardTerm(2.0, params={"tracking_sigma": 0.1}),
        "track_yaw_rate": RewardTerm(2.0, params={"tracking_sigma": 0.5}),
        "upright": RewardTerm(2.0, f"{NAME}:upright"),
        "head": RewardTerm(2.0, "alive"),
        "pose": RewardTerm(1.0, f"{NAME}:near_default"),
        "air_time": RewardTerm(3.0, f"{NAME}:swing_time", {"low": 0.125, "high": 0.3, "least_speed": least_speed}),
        "ang_vel_xy": RewardTerm(-0.05),
        "action_rate": RewardTerm(-0.06),
        "foot_slip": RewardTerm(-0.1),
    }
    commands = replace(task.commands, dead_zone=0.01, terms={})
    return with_ranges(replace(task, commands=commands, rewards=RewardConfig(terms)), x=(-0.4, 0.4))
