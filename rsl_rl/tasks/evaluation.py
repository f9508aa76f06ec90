"""Judge a policy on a legged robot by numbers that do not depend on how it was trained."""

from __future__ import annotations

from dataclasses import replace
from typing import Dict, List, Mapping, Optional, Protocol, Sequence

import torch
from torch import Tensor

from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.env.vec_env import Observations
from rsl_rl.tasks.gait_meter import GaitMeter
from rsl_rl.tasks.legged_robot import LeggedRobot
from rsl_rl.utils.registry import suggest

_COMMAND_PERIOD = 10.0  # [s], whatever the task trains with


class ActingPolicy(Protocol):
    """What is judged: observations to actions [N, A], and a way to forget the episodes that ended."""

    def __call__(self, obs: Observations) -> Tensor: ...

    def reset(self, dones: Optional[Tensor] = None) -> None: ...


def for_evaluation(cfg: LeggedRobotConfig, num_envs: int, seconds: float, pushes: bool = False) -> LeggedRobotConfig:
    """Return the task as the gate wants it: no observation noise, moving commands from the same ranges, pushes only if
    asked.

    The robots keep the different frictions, payloads and gains of training.
    """
    if not isinstance(cfg, LeggedRobotConfig):
        raise ValueError(
            f"{type(cfg).__name__} describes no legged robot, so there is no gait to judge or to show; take go2_flat"
        )
    if seconds < cfg.sim.control_dt:
        raise ValueError(f"seconds={seconds} is less than one control step of {cfg.sim.control_dt:g} s; give more")
    unknown = [name for name in cfg.gate if name not in GaitMeter.NAMES]
    if unknown:
        raise ValueError(
            f"gate names '{unknown[0]}'; known: {', '.join(GaitMeter.NAMES)}.{suggest(unknown[0], GaitMeter.NAMES)}"
        )
    randomization = cfg.randomization if pushes else replace(cfg.randomization, push_interval=0.0)
    noiseless = {name: replace(term, noise=0.0) for name, term in cfg.policy_observations.items()}
    return replace(
        cfg,
        num_envs=num_envs,
        episode_length=2 * seconds,  # no time-outs while we look
        policy_observations=noiseless,
        randomization=randomization,
        commands=replace(cfg.commands, standing_fraction=0.0, resampling_time=_COMMAND_PERIOD),
    )


@torch.no_grad()
def evaluate(env: LeggedRobot, policy: ActingPolicy, seconds: float) -> Dict[str, float]:
    """Walk every robot for a time and return what it did.

    fall_rate (falls per robot), lin_vel_error (mean length of v_xy - command, base frame [m/s]), yaw_rate_error
    [rad/s], action_rate (root mean square change of the joint target per control step [rad]), mean_torque (mean
    magnitude [N m]), torque_saturation (share of joint samples at the limit), foot_slip (mean horizontal speed of feet
    on the floor [m/s]), swing_height (mean highest point of a swing [m]), step_frequency (touchdowns of a foot per
    second), duty_factor (share of time that a foot is on the floor) and cost_of_transport (mechanical work per weight
    and distance).
    """
    meter = GaitMeter(env.cfg, env.robot)
    obs = env.reset()
    env.observers.append(meter)
    policy.reset()
    for _ in range(round(seconds / env.cfg.sim.control_dt)):
        obs, _, done, _ = env.step(policy(obs))
        policy.reset(done)
    env.observers.remove(meter)
    return meter.result()


def gate_misses(results: Sequence[Mapping[str, float]], limits: Mapping[str, float]) -> List[str]:
    """Name each number of the results that exceeds its limit, in every repetition; an empty list is a pass."""
    return [
        f"{name} {result[name]:.4f} > {limit}"
        for name, limit in limits.items()
        for result in results
        if not result[name] <= limit
    ]
