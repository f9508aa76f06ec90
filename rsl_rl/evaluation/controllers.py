"""Run policies in the simulation through their contracts: each robot has a controller, as on a real robot.

The task gives raw readings as its observations, and the controllers' joint targets become its actions.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence

import numpy as np
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
from rsl_rl.evaluation.export_parity import Controller
from rsl_rl.robots import ROBOTS
from rsl_rl.robots.robot import read_joint_names

READINGS = ("base_lin_vel", "base_ang_vel", "gravity", "command", "joint_pos", "joint_vel")
"""Observation terms of the task, in SI units; joint_pos less the robot's default pose."""

SIM_DT = 0.005
"""Largest physics step [s]."""


class RobotController(NamedTuple):
    """A controller of one robot, and what resets it with its network."""

    act: Controller
    reset: Callable[[], None]


class ControlledRobots:
    """A policy of N robots, each with a controller of its own, in the task of :func:`for_contract`.

    A controller that refuses a reading or has stopped repeats the last targets, of the default pose at the start;
    ``refused`` counts such steps and ``problem`` is the reason of the last.
    """

    def __init__(self, make: Callable[[], RobotController], default_joint_pos: Sequence[float], action_scale: Tensor):
        self._make, self._scale = make, action_scale  # [J] [rad] per unit of action
        self._default = np.asarray(default_joint_pos, np.float32)  # [J] of the task [rad]
        self._robots: List[RobotController] = []
        self._targets = np.empty((0, len(self._default)), np.float32)  # [N, J] the last ones
        self.refused, self.problem = 0, ""

    def __call__(self, obs: Observations) -> Tensor:
        """Return the actions [N, J] of the task whose targets are the controllers'."""
        readings = obs["policy"].cpu().numpy()
        if len(readings) != len(self._robots):
            self._robots = [self._make() for _ in range(len(readings))]
            self._targets = np.tile(self._default, (len(readings), 1))
        for robot, row in enumerate(readings):
            try:
                self._targets[robot] = self._robots[robot].act(**self._sensors(row))
            except ValueError as error:
                self.refused, self.problem = self.refused + 1, str(error)
        return torch.from_numpy(self._targets - self._default).to(obs["policy"].device) / self._scale

    def _sensors(self, row: np.ndarray) -> Dict[str, np.ndarray]:
        """Return the readings of one robot by name."""
        joints = len(self._default)
        lin_vel, ang_vel, gravity, command, joint_pos, joint_vel = np.split(row, (3, 6, 9, 12, 12 + joints))
        return {
            "base_lin_vel": lin_vel,
            "base_ang_vel": ang_vel,
            "base_quat": upright_quat(gravity),
            "command": command,
            "joint_pos": joint_pos + self._default,
            "joint_vel": joint_vel,
        }

    def reset(self, dones: Optional[Tensor] = None) -> None:
        """Reset the controllers of the robots marked in dones [N]; all for None."""
        marked = range(len(self._robots)) if dones is None else dones.nonzero()[:, 0].tolist()
        for robot in marked:
            self._robots[robot].reset()
            self._targets[robot] = self._default


def upright_quat(gravity: np.ndarray) -> np.ndarray:
    """Return an orientation, w x y z, in which gravity has a direction [3] in the base frame; the heading is free."""
    up = -gravity / np.linalg.norm(gravity)
    quat = np.array((1.0 + up[2], up[1], -up[0], 0.0))  # the shortest rotation of ``up`` to the world's z axis
    size = np.linalg.norm(quat)
    return quat / size if size > 1e-6 else np.array((0.0, 1.0, 0.0, 0.0))


def for_contract(cfg: LeggedRobotConfig, contract: Mapping[str, Any]) -> LeggedRobotConfig:
    """Return a task with the rate, gains, torque limits, delay and commands of a contract, and raw readings as its
    observations. It rewards nothing but time. A contract of other joints is a ValueError."""
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

    def by_joint(field: str) -> Dict[str, float]:
        return {re.escape(name): value for name, value in zip(names, contract[field])}

    scale = contract["action_scale"]
    control = ControlConfig(
        stiffness=by_joint("stiffness"),
        damping=by_joint("damping"),
        action_scale=by_joint("action_scale") if isinstance(scale, (list, tuple)) else scale,
        action_clip=1e6,
        actuator=_actuator(cfg.control.actuator, by_joint("torque_limits")),
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
        # the controllers limit the command themselves
        commands=replace(commands, limit=replace(commands.limit, max_lin_acc=0.0, max_yaw_acc=0.0)),
        observations={"policy": ObservationGroupConfig({name: ObservationTerm() for name in READINGS})},
        rewards=RewardConfig({"alive": RewardTerm(1.0)}),  # a task needs one
    )


def _actuator(cfg: ActuatorConfig, limits: Mapping[str, float]) -> ActuatorConfig:
    """Return ideal PD loops with torque limits, and the rotors of a task's own actuator."""
    return ActuatorConfig(torque_limit=dict(limits), armature=cfg.armature, friction=cfg.friction)
