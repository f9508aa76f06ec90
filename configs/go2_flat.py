"""Unitree Go2 on flat ground, following velocity commands."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Dict, Mapping

from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.config.experiment import TrainConfig
from rsl_rl.config.learn import RunnerConfig
from rsl_rl.config.mdp import (
    CommandConfig,
    CommandLimitConfig,
    CommandTerm,
    ControlConfig,
    EventTerm,
    ObservationGroupConfig,
    ObservationTerm,
    RandomizationConfig,
    RewardConfig,
    RewardTerm,
    TerminationConfig,
)
from rsl_rl.config.policy import SymmetricActorCriticConfig
from rsl_rl.config.task import LeggedRobotConfig

_THIGHS_AND_CALVES = tuple(f"{leg}_{part}" for part in ("thigh", "calf") for leg in ("FL", "FR", "RL", "RR"))


_SENSED = {
    "base_lin_vel": ObservationTerm(scale=2.0, noise=0.1),
    "base_ang_vel": ObservationTerm(scale=0.25, noise=0.2),
    "gravity": ObservationTerm(scale=1.0, noise=0.05),
    "command": ObservationTerm(scale=2.0),
    "joint_pos": ObservationTerm(scale=1.0, noise=0.01),
    "joint_vel": ObservationTerm(scale=0.05, noise=1.5),
    "action": ObservationTerm(scale=1.0),
    "gait_clock": ObservationTerm(),
}
"""Observations that sensors of the robot provide, with scales and noise of legged_gym, and the phase of the gait."""

GROWING = {"start": 0.0, "end": 1.0, "steps": 100 * 24}
"""Schedule of a disturbance that grows during the first 2,400 control steps: a policy that cannot walk learns nothing
from pushes."""

TROT = (0.0, 0.5, 0.5, 0.0)
"""Phases of the feet FL, FR, RL, RR in a trot, in turns of the gait clock."""

_PRIVILEGED = {
    "base_height": ObservationTerm(scale=5.0),
    "foot_contact": ObservationTerm(scale=1.0),
    "foot_height": ObservationTerm(scale=10.0),
    "air_time": ObservationTerm(scale=2.0),
    "friction": ObservationTerm(scale=1.0),
    "payload": ObservationTerm(scale=0.5),
}
"""Privileged observations of the critic, which only the simulation provides."""


def without_noise(terms: Mapping[str, ObservationTerm]) -> Dict[str, ObservationTerm]:
    return {name: replace(term, noise=0.0) for name, term in terms.items()}


def flat_task() -> LeggedRobotConfig:
    """Return what tasks on flat ground have in common: observations, rewards, terminations and randomisation, with the
    sizes of a Go2 in its own default pose."""
    return LeggedRobotConfig(
        robot="go2",
        num_envs=512,
        observations={
            "policy": ObservationGroupConfig(_SENSED),
            "critic": ObservationGroupConfig({**without_noise(_SENSED), **_PRIVILEGED}),
        },
        commands=CommandConfig(
            resampling_time=3.0,
            standing_fraction=0.06,
            standing_time=9.0,  # robots that stand badly tip over after some seconds
            dead_zone=0.04,
            limit=CommandLimitConfig(max_lin_acc=2.0, max_yaw_acc=4.0),
            terms={"gait_clock": CommandTerm(params={"period": 0.5})},
        ),
        rewards=RewardConfig(
            {
                "track_lin_vel": RewardTerm(1.5, params={"tracking_sigma": 0.25}),
                "track_yaw_rate": RewardTerm(0.75, params={"tracking_sigma": 0.25}),
                "alive": RewardTerm(1.0),
                "lin_vel_z": RewardTerm(-2.0),
                "ang_vel_xy": RewardTerm(-0.05),
                "orientation": RewardTerm(-5.0),
                "base_height": RewardTerm(-10.0, params={"base_height_target": 0.3}),
                "torques": RewardTerm(-1e-4),
                "joint_acc": RewardTerm(-2.5e-7),
                "action_rate": RewardTerm(-0.01),
                "joint_limits": RewardTerm(-5.0, params={"soft_joint_limit": 0.9}),
                "collision": RewardTerm(-1.0, params={"collision_links": _THIGHS_AND_CALVES}),
                "feet_air_time": RewardTerm(1.0, params={"air_time_target": 0.3}),
                # without the clock, a policy can stop in the middle of a step and stay there: nothing it reads changes
                "foot_timing": RewardTerm(1.0, params={"stance_share": 0.55, "offsets": TROT}),
                "foot_slip": RewardTerm(-0.04),
                "abduction_deviation": RewardTerm(-0.5),
                "stand_still": RewardTerm(-0.5),
                "standing_steps": RewardTerm(-0.5),
            },
            only_positive=False,  # clipped rewards are all 0 while a robot tips over, so that it learns less from it
        ),
        gate={
            "fall_rate": 0.01,
            "lin_vel_error": 0.15,
            "yaw_rate_error": 0.15,
            "failures_per_hour": 0.1,
            "freezes_per_hour": 0.0,
            "pushed_failures_per_hour": 0.34,
            "joystick_lin_vel_error": 0.12,
            "dead_zone": 0.05,
            "stop_drift": 0.02,
        },
        randomization=RandomizationConfig().with_terms(
            {"push": EventTerm("interval", 2.0, params={"push_turning": 1.5, "schedule": GROWING})}
        ),
        terminations=TerminationConfig(contact_links=("trunk", "head"), max_tilt=1.0),
    )


def go2_task(hip_angle: float = 0.2) -> LeggedRobotConfig:
    """Return flat_task with slow commands, and with a default pose in which the feet carry almost equal weights.

    In the robot's own pose, with the rear thighs at 1.0 rad, the rear feet are so far back that robots with a payload
    tip forward after a stop. ``hip_angle`` [rad] turns the legs outward; it is 0.1 in the robot's own pose. With
    the feet further apart, fewer robots tip over after a push.
    """
    task = flat_task()
    pose = {"F._thigh_joint": 0.7, "R._thigh_joint": 0.9, ".L_hip_joint": hip_angle, ".R_hip_joint": -hip_angle}
    return replace(
        task,
        commands=replace(task.commands, slow_fraction=0.3),
        control=ControlConfig(default_joint_pos=pose),
    )


@dataclass(frozen=True)
class Go2Flat(TrainConfig):
    """Unitree Go2 on flat ground, following velocity commands."""

    task: str = "go2_flat"
    env: LeggedRobotConfig = field(default_factory=go2_task)
    policy: SymmetricActorCriticConfig = SymmetricActorCriticConfig(
        actor_hidden_dims=(128, 64, 32), critic_hidden_dims=(128, 64, 32)
    )
    algorithm: PPOConfig = PPOConfig(
        desired_kl=0.02, final_desired_kl=0.008, entropy_coef=0.01, final_entropy_coef=0.002
    )
    runner: RunnerConfig = RunnerConfig(max_iterations=220, save_interval=20, experiment_name="go2_flat")
