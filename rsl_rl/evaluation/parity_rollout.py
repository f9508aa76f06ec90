"""Record a rollout of a trained policy, the reference for exported files; of robots with sensor readings and joint
targets."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import torch
from torch import Tensor

from rsl_rl.env.contract import standardize_step
from rsl_rl.env.protocols import Resettable, supports
from rsl_rl.env.vec_env import Observations, VecEnv
from rsl_rl.tasks.legged_robot import LeggedRobot


class Rollout(NamedTuple):
    """T control steps of N robots with J joints, on the CPU; other environments have no sensors and J = 0."""

    joint_names: Tuple[str, ...]  # of other environments: a name for each action
    obs: Tensor  # [T, N, D] input of the policy
    images: Tuple[Tensor, ...]  # [T, N, ...] each, further inputs of the policy
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

    The linear velocity is in the world frame, the angular one in the base frame; joints are in the simulation's order,
    and their positions are those that the encoders report.
    """
    sim = env.sim
    clock = {name: value for name, value in env.state.commands.items() if name == "gait_clock"}
    return {
        **clock,
        "command": env.state.requested_command,
        "base_quat": sim.root_quat,
        "base_lin_vel_world": sim.root_lin_vel,
        "base_ang_vel": sim.root_ang_vel,
        "joint_pos": env.state.sensed_joint_pos,
        "joint_vel": sim.joint_vel,
    }


@torch.no_grad()
def record_rollout(env: VecEnv, policy: Any, actor_groups: Sequence[str], num_steps: int) -> Rollout:
    """Run the policy in an environment, starting with new episodes; a robot's has no observation noise.

    Joint targets are those that the environment gave to its simulation.
    """
    robot = env if isinstance(env, LeggedRobot) else None
    rows: Dict[str, List[Tensor]] = {name: [] for name in ("obs", "actions", "last_actions", "joint_targets", "done")}
    sensors: Dict[str, List[Tensor]] = {}
    images: List[List[Tensor]] = []
    memories: List[Tuple[Tensor, ...]] = []
    obs = env.reset() if supports(env, Resettable) else env.get_observations()
    policy.reset()
    for _ in range(num_steps):
        for name, value in ({} if robot is None else sensor_readings(robot)).items():
            sensors.setdefault(name, []).append(value.cpu().clone())
        vectors, others = _split_groups(obs, actor_groups)
        images.append(others)
        actions = policy(obs)
        empty = actions.new_empty(len(actions), 0)
        last_actions = torch.zeros_like(actions) if robot is None else robot.state.action
        rows["obs"].append(vectors)
        rows["last_actions"].append(last_actions.cpu().clone())
        rows["actions"].append(actions.cpu().clone())
        memories.append(tuple(memory.cpu().clone() for memory in policy.memories()))
        obs, _, done, _ = standardize_step(env.step(actions))
        rows["joint_targets"].append((empty if robot is None else robot.joint_targets).cpu().clone())
        policy.reset(done)
        rows["done"].append(done.cpu().clone())
    stacked = {name: torch.stack(values) for name, values in rows.items()}
    names = [f"action {i}" for i in range(stacked["actions"].shape[2])] if robot is None else robot.sim.joint_names
    return Rollout(
        tuple(names),
        images=tuple(map(torch.stack, zip(*images))),
        sensors={name: torch.stack(x) for name, x in sensors.items()},
        memories=tuple(map(torch.stack, zip(*memories))),
        **stacked,
    )


def _split_groups(obs: Observations, groups: Sequence[str]) -> Tuple[Tensor, List[Tensor]]:
    """Return the vector groups, concatenated [N, D], and the image groups, all as float32 on the CPU."""
    tensors = [obs[group].cpu().float() for group in groups]
    vectors = [x for x in tensors if x.dim() == 2]
    joined = torch.cat(vectors, dim=-1) if vectors else tensors[0].new_empty(len(tensors[0]), 0)
    return joined, [x.clone() for x in tensors if x.dim() > 2]
