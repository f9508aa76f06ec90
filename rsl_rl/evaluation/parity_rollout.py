"""Record a rollout of a trained policy with sensor readings and joint targets, the reference for exported files."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import torch
from torch import Tensor

from rsl_rl.tasks.legged_robot import LeggedRobot


class Rollout(NamedTuple):
    """T control steps of N robots with J joints, on the CPU."""

    joint_names: Tuple[str, ...]
    obs: Tensor  # [T, N, D] input of the policy
    actions: Tensor  # [T, N, A] output of the policy
    last_actions: Tensor  # [T, N, A] the action of the step before, clipped; zeros at the start of an episode
    sensors: Dict[str, Tensor]  # [T, N, k] each, at the time of obs; SI units
    joint_targets: Tensor  # [T, N, J] input of the simulation [rad]
    done: Tensor  # [T, N] bool: the episode ended with this step
    memories: Tuple[Tensor, ...]  # recurrent states after the step, each [T, L, N, H]; empty without memory

    def memories_before(self, step: int, robot: int) -> Tuple[Tensor, ...]:
        """Return the recurrent states before a step, each [L, 1, H]; zeros at the start of an episode."""
        if step == 0 or self.done[step - 1, robot]:
            return tuple(torch.zeros_like(memory[0, :, robot, None]) for memory in self.memories)
        return tuple(memory[step - 1, :, robot, None] for memory in self.memories)

    @property
    def num_resets(self) -> int:
        return int(self.done.sum())


def sensor_readings(env: LeggedRobot) -> Dict[str, Tensor]:
    """Return the current sensor readings of N legged robots, [N, k] each, in SI units.

    The linear velocity is in the world frame, the angular one in the base frame; joints are in the simulation's order.
    """
    sim = env.sim
    return {
        "command": env.state.command,
        "base_quat": sim.root_quat,
        "base_lin_vel_world": sim.root_lin_vel,
        "base_ang_vel": sim.root_ang_vel,
        "joint_pos": sim.joint_pos,
        "joint_vel": sim.joint_vel,
    }


@torch.no_grad()
def record_rollout(env: LeggedRobot, policy: Any, actor_groups: Sequence[str], num_steps: int) -> Rollout:
    """Run the policy in an environment without observation noise, starting with new episodes.

    Joint targets are those that the environment gave to its simulation.
    """
    rows: Dict[str, List[Tensor]] = {name: [] for name in ("obs", "actions", "last_actions", "joint_targets", "done")}
    sensors: Dict[str, List[Tensor]] = {}
    memories: List[Tuple[Tensor, ...]] = []
    obs = env.reset()
    policy.reset()
    for _ in range(num_steps):
        for name, value in sensor_readings(env).items():
            sensors.setdefault(name, []).append(value.cpu().clone())
        rows["obs"].append(torch.cat([obs[group] for group in actor_groups], dim=-1).cpu().clone())
        rows["last_actions"].append(env.state.action.cpu().clone())
        actions = policy(obs)
        rows["actions"].append(actions.cpu().clone())
        memories.append(tuple(memory.cpu().clone() for memory in policy.memories()))
        obs, _, done, _ = env.step(actions)
        rows["joint_targets"].append(env.joint_targets.cpu().clone())
        policy.reset(done)
        rows["done"].append(done.cpu().clone())
    stacked = {name: torch.stack(values) for name, values in rows.items()}
    return Rollout(
        env.sim.joint_names,
        sensors={name: torch.stack(x) for name, x in sensors.items()},
        memories=tuple(map(torch.stack, zip(*memories))),
        **stacked,
    )
