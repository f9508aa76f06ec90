"""Run policies of any program in the simulation through their contracts.

The task gives raw readings as its observations, and the joint targets of the contract become its actions. The
observations are those of the runner on a robot, computed for all robots at once.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any, Callable, Dict, Mapping, Optional, Sequence

import torch
from torch import Tensor

from rsl_rl.config.mdp import (
    ControlConfig,
    EventTerm,
    ObservationGroupConfig,
    ObservationTerm,
    RewardConfig,
    RewardTerm,
)
from rsl_rl.config.sim import ActuatorConfig
from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.env.vec_env import Observations
from rsl_rl.robots import ROBOTS
from rsl_rl.robots.robot import read_joint_names

READINGS = ("base_lin_vel", "base_ang_vel", "gravity", "command", "joint_pos", "joint_vel")
"""Observation terms of the task, in SI units; joint_pos less the robot's default pose."""

SIM_DT = 0.005
"""Largest physics step [s]."""


class ContractPolicy:
    """A policy of N robots in the task of :func:`for_contract`: the runner of a robot's contract, for all at once.

    ``network`` maps observations [N, D] to actions [N, A]; ``reset_network`` clears its memory of the robots marked in
    a mask [N], or of all for None. Readings are those of the simulation, so the robot's own axes do not matter.
    """

    def __init__(
        self,
        contract: Mapping[str, Any],
        network: Callable[[Tensor], Tensor],
        reset_network: Callable[[Optional[Tensor]], None],
        joint_names: Sequence[str],
    ):
        self._network, self._reset_network = network, reset_network
        self._period = contract["control_period"]
        self._terms = contract["observations"]
        names = contract["joint_names"]
        self._from_task = torch.tensor([list(joint_names).index(name) for name in names])  # of each policy's joint
        self._to_task = torch.argsort(self._from_task)
        self._default = torch.tensor(contract["default_joint_pos"])  # that of the task too [rad]
        self._scale = torch.tensor(contract["action_scale"]).expand(len(names))
        self._clip = contract["action_clip"] or math.inf
        self._obs_clip = contract["observation_clip"] or math.inf
        limits = contract["target_limits"] or [(-math.inf, math.inf)] * len(names)
        self._low, self._high = torch.tensor(limits).unbind(dim=1)
        ranges = torch.tensor(contract["command_ranges"] or [(-math.inf, math.inf)] * 3)
        self._lowest, self._highest = ranges[:, 0].clamp(max=0.0), ranges[:, 1].clamp(min=0.0)
        limit = contract["commands"].get("velocity", {})
        rates = [limit.get("max_lin_acc", 0.0)] * 2 + [limit.get("max_yaw_acc", 0.0)]
        self._largest_change = torch.tensor([rate * self._period if rate else math.inf for rate in rates])
        self._clock = contract["commands"].get("gait_clock", {})
        self._by_step = contract["history_order"] == "step"
        self._started = torch.ones(0, dtype=torch.bool)  # [N] without a call since the reset

    def _allocate(self, num_robots: int) -> None:
        self._started = torch.ones(num_robots, dtype=torch.bool)
        self._action = torch.zeros(num_robots, len(self._default))
        self._command = torch.zeros(num_robots, 3)
        self._time = torch.zeros(num_robots)  # [s] of the gait clock
        self._past = [torch.zeros(num_robots, term["history"], term["size"]) for term in self._terms]  # oldest first
        self._reset_network(None)

    @torch.no_grad()
    def __call__(self, obs: Observations) -> Tensor:
        """Return the actions [N, J] of the task: offsets of the joint targets from its default pose, in its scale."""
        readings = obs["policy"].cpu()
        if len(readings) != len(self._started):
            self._allocate(len(readings))
        actions = self._network(self.observe(readings)).clamp(-self._clip, self._clip)
        targets = (self._default + self._scale * actions).clamp(self._low, self._high)
        self._action = actions
        self._time += self._period
        self._started.fill_(False)
        offset = (targets - self._default) / self._scale
        return offset[:, self._to_task].to(obs["policy"].device)

    def observe(self, readings: Tensor) -> Tensor:
        """Return the observations [N, D] of the network for the task's readings [N, 12 + 2 J]."""
        joints = len(self._default)
        lin_vel, ang_vel, gravity, command, joint_pos, joint_vel = readings.split([3, 3, 3, 3, joints, joints], dim=1)
        command = command.clamp(self._lowest, self._highest)
        change = (command - self._command).clamp(-self._largest_change, self._largest_change)
        self._command = torch.where(self._largest_change.isinf(), command, self._command + change)
        values = {
            "base_lin_vel": lin_vel,
            "base_ang_vel": ang_vel,
            "gravity": gravity,
            "command": self._command,
            "gait_clock": self._phase(),
            "joint_pos": joint_pos[:, self._from_task],
            "joint_vel": joint_vel[:, self._from_task],
            "action": self._action,
        }
        for i, term in enumerate(self._terms):
            low, high = term["clip"] or (-math.inf, math.inf)
            newest = (values[term["name"]].clamp(low, high) * torch.tensor(term["scale"])).unsqueeze(1)
            shifted = torch.cat((self._past[i][:, 1:], newest), dim=1)
            self._past[i] = torch.where(self._started.view(-1, 1, 1), newest, shifted)
        if self._by_step:
            stacked = torch.cat(self._past, dim=2).flatten(1)
        else:
            stacked = torch.cat([past.flatten(1) for past in self._past], dim=1)
        return stacked.clamp(-self._obs_clip, self._obs_clip)

    def _phase(self) -> Tensor:
        """Return sine and cosine of the gait's phase, zeros for commands to stand, [N, 2]."""
        angle = 2 * math.pi * self._time / self._clock.get("period", 1.0)
        phase, dead_zone = torch.stack((angle.sin(), angle.cos()), dim=1), self._clock.get("dead_zone")
        if dead_zone is None:
            return phase
        return phase * (self._command.square().sum(dim=1, keepdim=True) > dead_zone**2)

    def reset(self, dones: Optional[Tensor] = None) -> None:
        """Start an episode of the robots marked in dones [N]; of all for None."""
        if dones is None:
            self._started = torch.ones(0, dtype=torch.bool)
            return
        marked = dones.cpu()
        if marked.any() and len(marked) == len(self._started):
            self._started |= marked
            self._action[marked], self._command[marked], self._time[marked] = 0.0, 0.0, 0.0
            self._reset_network(marked)


def by_joint(contract: Mapping[str, Any], field: str) -> Dict[str, float]:
    """Return the numbers of a field of a contract as a config has them, by patterns of the joints' names."""
    return {re.escape(name): value for name, value in zip(contract["joint_names"], contract[field])}


def for_contract(cfg: LeggedRobotConfig, contract: Mapping[str, Any]) -> LeggedRobotConfig:
    """Return a task with the rate, default pose, gains, torque limits, delay and commands of a contract, and raw
    readings as its observations. It rewards nothing but time. A contract of other joints is a ValueError."""
    names = contract["joint_names"]
    own = read_joint_names(ROBOTS.load(cfg.robot).model_path)
    if sorted(names) != sorted(own):
        alone = [name for name in names if name not in own]
        raise ValueError(
            f"joint_names: {f'the robot {cfg.robot} has no {alone[0]}' if alone else 'joints are missing'}; the policy "
            f"moves {len(names)} joints and {cfg.robot} has {', '.join(own)}"
        )
    period = contract["control_period"]
    decimation = math.ceil(period / SIM_DT - 1e-6)

    scale = contract["action_scale"]
    control = ControlConfig(
        default_joint_pos=by_joint(contract, "default_joint_pos"),
        stiffness=by_joint(contract, "stiffness"),
        damping=by_joint(contract, "damping"),
        action_scale=by_joint(contract, "action_scale") if isinstance(scale, (list, tuple)) else scale,
        action_clip=1e6,
        actuator=_actuator(cfg.control.actuator, by_joint(contract, "torque_limits")),
    )
    sim = replace(cfg.sim, dt=period / decimation, decimation=decimation)
    delays = tuple(round(late / sim.dt) for late in contract["action_delay"])
    randomization = cfg.randomization
    if any(delays):
        delay = {"action_delay": EventTerm("startup", params={"range": delays})}
        randomization = randomization.with_terms(delay)
    ranges = contract.get("command_ranges")
    ranges = dict(zip(("lin_vel_x", "lin_vel_y", "yaw_rate"), map(tuple, ranges))) if ranges else {}
    terms = {name: term for name, term in cfg.commands.terms.items() if name == "velocity"}
    commands = replace(cfg.commands, **ranges, terms=terms)
    return replace(
        cfg,
        sim=sim,
        control=control,
        randomization=randomization,
        # the policy limits the command itself
        commands=replace(commands, limit=replace(commands.limit, max_lin_acc=0.0, max_yaw_acc=0.0)),
        observations={"policy": ObservationGroupConfig({name: ObservationTerm() for name in READINGS})},
        rewards=RewardConfig({"alive": RewardTerm(1.0)}),  # a task needs one
    )


def _actuator(cfg: ActuatorConfig, limits: Mapping[str, float]) -> ActuatorConfig:
    """Return ideal PD loops with torque limits, and the rotors of a task's own actuator."""
    return ActuatorConfig(torque_limit=dict(limits), armature=cfg.armature, friction=cfg.friction)
