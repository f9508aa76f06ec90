"""Play motions back in a task's environment, so that its own reward terms judge them.

The physics does not run: each step writes the state of the motions into the simulation's tensors.
"""

from __future__ import annotations

import math
from typing import List, NamedTuple, Sequence, Tuple

import torch
from torch import Tensor

from rsl_rl.evaluation.audit.motions import Track
from rsl_rl.tasks.legged_robot import LeggedRobot
from rsl_rl.tasks.mdp.commands import Clock
from rsl_rl.tasks.mdp.rewards import WeightedRewards
from rsl_rl.tasks.robot_state import RobotState
from rsl_rl.utils.tensors import from_yaw, rotate_inverse


class Income(NamedTuple):
    """What N robots earn per second."""

    total: Tensor  # [N] what the learner gets
    terms: Tensor  # [terms, N] weighted
    velocity: Tensor  # [N, 3] mean measured velocity forward and left [m/s], and yaw rate [rad/s]


class Meter:
    """Add up what robots earn in the steps that count; nothing after the end of the first episode."""

    def __init__(self, env: LeggedRobot):
        self._env = env
        self._rewards = WeightedRewards(env.cfg.rewards, env.state, env.cfg.sim.control_dt)
        self._alive = torch.ones(env.num_envs, dtype=torch.bool)
        self._counts = torch.zeros(env.num_envs, dtype=torch.bool)
        self._sums = torch.zeros(len(env.cfg.rewards.terms) + 4, env.num_envs)
        self._time = torch.zeros(env.num_envs)  # [s]
        env.observers.append(self)

    def __call__(self, state: RobotState, done: Tensor) -> None:
        """Measure one step, before the resets."""
        earns = (self._counts & self._alive & ~done).to(state.command.device)
        values = torch.cat((self._rewards.compute(), state.planar_velocity.t() * self._env.cfg.sim.control_dt))
        self._sums[1:] += torch.where(earns, values, torch.zeros_like(values)).cpu()
        self._earns = earns.cpu()
        self._alive &= ~done.cpu()

    def step(self, actions: Tensor, commands: Tensor, counts: Tensor) -> None:
        """Take a step with commands [N, 3], which counts for the robots marked in ``counts`` [N]."""
        self._counts = counts
        self._env.state.requested_command.copy_(commands)
        result = self._env.step(actions)
        self._sums[0] += torch.where(self._earns, result.reward.cpu(), torch.zeros_like(self._sums[0]))
        self._time += counts * self._env.cfg.sim.control_dt

    @property
    def all_ended(self) -> bool:
        """Return whether the episodes of all robots have ended."""
        return not bool(self._alive.any())

    def income(self) -> Income:
        """Return the means over the time that counted."""
        means = self._sums / self._time.clamp(min=1e-9)
        return Income(means[0], means[1:-3], means[-3:].t())


class Replay:
    """Take the place of the actuator of an environment, and write the next state of each robot's track."""

    def __init__(self, env: LeggedRobot, tracks: Sequence[Track], velocities: Tensor):
        self._sim, self._velocities = env.sim, velocities  # [N, 3]
        self._dt = env.cfg.sim.control_dt
        self.lengths = torch.tensor([len(track.phase) for track in tracks])
        self._first = self.lengths.cumsum(0) - self.lengths
        self._values = {
            name: torch.cat([getattr(track, name) for track in tracks]).float()
            for name in Track._fields
            if name != "possible"
        }
        links = env.sim.link_indices(env.sim.foot_names)
        self._links = links
        self._step = 0
        self._yaw, self._place = torch.zeros(len(tracks)), torch.zeros(len(tracks), 2)
        self.inputs: List[Tensor] = []

    def now(self, name: str) -> Tensor:
        """Return a quantity of the tracks in the next step, [N, ...]."""
        return self._values[name][self._first + self._step % self.lengths]

    def step(self, targets: Tensor) -> None:
        """Write the state after a control step; called by the environment."""
        sim, trunk, turned = self._sim, self.now("trunk"), from_yaw(self._yaw)
        device = sim.device
        c, s = self._yaw.cos(), self._yaw.sin()
        turn = torch.stack((c, -s, s, c), dim=1).view(-1, 2, 2)

        def in_world(vectors: Tensor) -> Tensor:  # [N, ..., 3] in the frame of the heading
            flat = (turn.unsqueeze(1) @ vectors[..., :2].unsqueeze(3))[..., 0]
            return torch.cat((flat, vectors[..., 2:]), dim=-1)

        velocity, sway = self._velocities * torch.tensor([1.0, 1.0, 0.0]), self.now("sway")
        place = torch.cat((self._place, torch.zeros(len(trunk), 1)), dim=1)
        sim.root_pos.copy_(place + trunk[:, :3])
        sim.root_quat.copy_(_product(turned, trunk[:, 3:]))
        sim.root_lin_vel.copy_(in_world((velocity + sway[:, :3]).unsqueeze(1))[:, 0])
        turning = sway[:, 3:].clone()
        turning[:, 2] += self._velocities[:, 2]
        sim.root_ang_vel.copy_(rotate_inverse(trunk[:, 3:], turning))
        sim.joint_pos.copy_(self.now("joint_pos"))
        sim.joint_vel.copy_(self.now("joint_vel"))
        sim.joint_torque.copy_(self.now("torque"))
        sim.contact_force.zero_()
        sim.contact_force[:, self._links] = in_world(self.now("force")).to(device)
        sim.foot_pos.copy_(in_world(self.now("foot_pos")) + place.unsqueeze(1))
        sim.foot_vel.copy_(in_world(self.now("foot_vel")))
        sim.foot_up.copy_(in_world(self.now("foot_up")))
        sim.diverged.zero_()
        self._place += in_world(velocity.unsqueeze(1))[:, 0, :2] * self._dt
        self._yaw = (self._yaw + self._velocities[:, 2] * self._dt) % (2 * math.pi)
        self._step += 1
        self.inputs = [targets]

    def reset(self, mask: Tensor) -> None:
        """Ignore the end of an episode: nothing that a robot earns counts after it."""


def replay(env: LeggedRobot, rows: Sequence[Tuple[Tensor, Track]], velocities: Tensor, cycles: int = 2) -> Income:
    """Play tracks under constant commands; return what is earned in whole cycles, after a first one.

    ``rows`` are a command [3] and a track for each robot of the environment.
    """
    env.reset()
    commands = torch.stack([command for command, _ in rows])
    tracks = Replay(env, [track for _, track in rows], velocities)
    env.actuator = tracks  # type: ignore[assignment]  # of the actuator, the step of an environment uses no more
    stiffness, damping = env.context.per_joint("stiffness"), env.context.per_joint("damping")
    meter = Meter(env)
    clocks = {name: source for name, source in env.commands.sources.items() if isinstance(source, Clock)}
    warm = torch.maximum(tracks.lengths, torch.tensor(3))
    for k in range(int((warm + cycles * tracks.lengths).max())):
        wanted = tracks.now("joint_pos") + (tracks.now("torque") + damping * tracks.now("joint_vel")) / stiffness
        actions = (wanted - env.state.default_joint_pos) / env.action_scale
        for name, source in clocks.items():
            env.state.commands[name].copy_(source.at(tracks.now("phase")))
        meter.step(actions, commands, (k >= warm) & (k < warm + cycles * tracks.lengths))
    return meter.income()


def _product(first: Tensor, second: Tensor) -> Tensor:
    """Return the products of quaternions [N, 4]."""
    a, b, c, d = first.unbind(dim=1)
    w, x, y, z = second.unbind(dim=1)
    return torch.stack(
        (
            a * w - b * x - c * y - d * z,
            a * x + b * w + c * z - d * y,
            a * y - b * z + c * w + d * x,
            a * z + b * y - c * x + d * w,
        ),
        dim=1,
    )
