"""Unitree G1 on flat ground, following velocity commands with its legs; the upper body is fixed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.config.experiment import TrainConfig
from rsl_rl.config.learn import RunnerConfig
from rsl_rl.config.mdp import (
    ControlConfig,
    ObservationTerm,
    RandomizationConfig,
    RewardConfig,
    RewardTerm,
    TerminationConfig,
)
from rsl_rl.config.policy import SymmetricActorCriticConfig
from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.config.terms import CommandTerm

from .go2_flat import flat_task

_LEGS = tuple(f"{side}_{part}" for part in ("thigh", "shin") for side in ("left", "right"))


def biped_task() -> LeggedRobotConfig:
    """Return the task of g1_flat, which h1_flat changes in sizes and gains only."""
    flat, clock = flat_task(), {"gait_clock": ObservationTerm()}
    return replace(
        flat,
        robot="g1",
        policy_observations={**flat.policy_observations, **clock},
        critic_observations={**flat.critic_observations, **clock},
        control=ControlConfig(
            stiffness={".*_hip_.*": 100.0, ".*_knee_.*": 150.0, ".*_ankle_.*": 40.0},
            damping={".*_hip_.*": 2.0, ".*_knee_.*": 4.0, ".*_ankle_.*": 2.0},
            action_scale=0.25,
        ),
        commands=replace(
            flat.commands,
            lin_vel_x=(-0.5, 1.0),
            lin_vel_y=(-0.3, 0.3),
            yaw_rate=(-0.8, 0.8),
            terms={"gait_clock": CommandTerm(params={"period": 0.8})},
        ),
        rewards=RewardConfig(
            weights={
                "track_lin_vel": 1.5,
                "track_yaw_rate": 0.75,
                "alive": 0.2,
                "lin_vel_z": -0.5,
                "ang_vel_xy": -0.05,
                "orientation": -2.0,
                "base_height": -10.0,
                "torques": -5e-6,
                "joint_acc": -2.5e-7,
                "action_rate": -0.01,
                "joint_limits": -5.0,
                "gait": 1.5,
                "foot_clearance": -10.0,
                "foot_slip": -0.15,
                "foot_tilt": -1.0,
                "hip_deviation": RewardTerm(-1.0, "joint_deviation", {"joints": ("abduction", "hip_yaw")}),
                "stand_still": -0.1,
            },
            base_height_target=0.75,
            foot_clearance_target=0.1,
            air_time_target=0.4,
        ),
        gate={"fall_rate": 0.1, "lin_vel_error": 0.2, "yaw_rate_error": 0.25},
        randomization=RandomizationConfig(payload=(-1.0, 3.0), push_interval=6.0, push_velocity=0.4),
        terminations=TerminationConfig(contact_links=("trunk", *_LEGS), max_tilt=0.8),
    )


@dataclass(frozen=True)
class G1Flat(TrainConfig):
    """Unitree G1 on flat ground, following velocity commands with its legs."""

    task: str = "g1_flat"
    env: LeggedRobotConfig = field(default_factory=biped_task)
    policy: SymmetricActorCriticConfig = SymmetricActorCriticConfig(
        init_noise_std=0.6, actor_hidden_dims=(128, 64, 32), critic_hidden_dims=(128, 64, 32)
    )
    algorithm: PPOConfig = PPOConfig(desired_kl=0.02, entropy_coef=0.005)
    runner: RunnerConfig = RunnerConfig(max_iterations=600, save_interval=50, experiment_name="g1_flat")
