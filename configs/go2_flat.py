"""Unitree Go2 on flat ground, following velocity commands."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.config.experiment import TrainConfig
from rsl_rl.config.learn import RunnerConfig
from rsl_rl.config.mdp import (
    CommandConfig,
    CommandLimitConfig,
    ObservationTerm,
    RandomizationConfig,
    RewardConfig,
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
}
"""Observations that sensors of the robot provide, with scales and noise of legged_gym."""

_PRIVILEGED = {
    "base_height": ObservationTerm(scale=5.0),
    "foot_contact": ObservationTerm(scale=1.0),
    "foot_height": ObservationTerm(scale=10.0),
    "air_time": ObservationTerm(scale=2.0),
    "friction": ObservationTerm(scale=1.0),
    "payload": ObservationTerm(scale=0.5),
}
"""Privileged observations of the critic, which only the simulation provides."""


def flat_task() -> LeggedRobotConfig:
    """Return the task: robot, observations, rewards, terminations and randomisation."""
    return LeggedRobotConfig(
        robot="go2",
        num_envs=512,
        policy_observations=dict(_SENSED),
        critic_observations={**{name: replace(term, noise=0.0) for name, term in _SENSED.items()}, **_PRIVILEGED},
        observation_history={"policy": 1, "critic": 1},
        commands=CommandConfig(resampling_time=5.0, limit=CommandLimitConfig(max_lin_acc=2.0, max_yaw_acc=4.0)),
        rewards=RewardConfig(
            weights={
                "track_lin_vel": 1.5,
                "track_yaw_rate": 0.75,
                "lin_vel_z": -2.0,
                "ang_vel_xy": -0.05,
                "orientation": -1.0,
                "base_height": -10.0,
                "torques": -1e-4,
                "joint_acc": -2.5e-7,
                "action_rate": -0.01,
                "joint_limits": -5.0,
                "collision": -1.0,
                "feet_air_time": 1.0,
                "trot": 0.75,
                "foot_slip": -0.04,
                "abduction_deviation": -0.5,
                "stand_still": -0.2,
            },
            collision_links=_THIGHS_AND_CALVES,
        ),
        gate={"fall_rate": 0.01, "lin_vel_error": 0.15, "yaw_rate_error": 0.15},
        randomization=RandomizationConfig(push_interval=4.0, push_turning=1.5),
        terminations=TerminationConfig(contact_links=("trunk", "head"), max_tilt=1.0),
    )


@dataclass(frozen=True)
class Go2Flat(TrainConfig):
    """Unitree Go2 on flat ground, following velocity commands."""

    task: str = "go2_flat"
    env: LeggedRobotConfig = field(default_factory=flat_task)
    policy: SymmetricActorCriticConfig = SymmetricActorCriticConfig(
        actor_hidden_dims=(128, 64, 32), critic_hidden_dims=(128, 64, 32)
    )
    algorithm: PPOConfig = PPOConfig(desired_kl=0.02, entropy_coef=0.01)
    runner: RunnerConfig = RunnerConfig(max_iterations=220, save_interval=20, experiment_name="go2_flat")
