"""Unitree G1 on flat ground, following velocity commands with its legs; the upper body is fixed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.config.experiment import TrainConfig
from rsl_rl.config.learn import RunnerConfig
from rsl_rl.config.mdp import (
    CommandTerm,
    ControlConfig,
    EventTerm,
    RandomizationConfig,
    RewardConfig,
    RewardTerm,
    TerminationConfig,
)
from rsl_rl.config.policy import SymmetricActorCriticConfig
from rsl_rl.config.task import LeggedRobotConfig

from .go2_flat import GROWING, flat_task

_LEGS = tuple(f"{side}_{part}" for part in ("thigh", "shin") for side in ("left", "right"))


def biped_task() -> LeggedRobotConfig:
    """Return the task that g1_flat and h1_flat have in common, with gains and sizes of a G1."""
    flat = flat_task()
    return replace(
        flat,
        robot="g1",
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
            {
                # narrower than on four legs: with 0.25, being 0.1 m/s too slow costs 4 % of it, and with 0.1 10 %
                "track_lin_vel": RewardTerm(1.5, params={"tracking_sigma": 0.1}),
                "track_yaw_rate": RewardTerm(0.75, params={"tracking_sigma": 0.25}),
                "alive": RewardTerm(0.2),
                "lin_vel_z": RewardTerm(-0.5),
                "ang_vel_xy": RewardTerm(-0.05),
                "orientation": RewardTerm(-2.0),
                "base_height": RewardTerm(-10.0, params={"base_height_target": 0.75}),
                "torques": RewardTerm(-5e-6),
                "joint_acc": RewardTerm(-2.5e-7),
                "action_rate": RewardTerm(-0.01),
                "joint_limits": RewardTerm(-5.0, params={"soft_joint_limit": 0.9}),
                "gait": RewardTerm(1.5),
                "foot_clearance": RewardTerm(-10.0, params={"foot_clearance_target": 0.1}),
                "foot_slip": RewardTerm(-0.15),
                "foot_tilt": RewardTerm(-1.0),
                "hip_deviation": RewardTerm(-1.0, "joint_deviation", {"joints": ("abduction", "hip_yaw")}),
                "stand_still": RewardTerm(-0.1),
            }
        ),
        gate={
            "fall_rate": 0.1,
            "lin_vel_error": 0.2,
            "yaw_rate_error": 0.25,
            "failures_per_hour": 0.5,
            "freezes_per_hour": 0.0,
            "dead_zone": 0.05,
            "stop_drift": 0.1,
        },
        randomization=RandomizationConfig().with_terms(
            {
                "model_parameters": EventTerm("startup", params={"payload": (-1.0, 3.0)}),
                "push": EventTerm(
                    "interval", 3.0, params={"push_velocity": 0.5, "push_turning": 0.5, "schedule": GROWING}
                ),
            }
        ),
        terminations=TerminationConfig(contact_links=("trunk", *_LEGS), max_tilt=0.8),
    )


def g1_task() -> LeggedRobotConfig:
    """Return biped_task with harder pushes and with more commands to stand: most falls of pushed robots follow a stop.

    The rewards of velocity and yaw rate are heavier, because pushes let robots walk too slowly.
    """
    task = biped_task()
    return replace(
        task,
        commands=replace(task.commands, standing_fraction=0.15, slow_fraction=0.3),
        rewards=task.rewards.with_weights({"track_lin_vel": 2.0, "track_yaw_rate": 1.0}).with_params(
            "track_yaw_rate", tracking_sigma=0.2
        ),
        randomization=task.randomization.with_params("push", push_velocity=0.7, push_turning=1.5),
    )


@dataclass(frozen=True)
class G1Flat(TrainConfig):
    """Unitree G1 on flat ground, following velocity commands with its legs."""

    task: str = "g1_flat"
    env: LeggedRobotConfig = field(default_factory=g1_task)
    policy: SymmetricActorCriticConfig = SymmetricActorCriticConfig(
        init_noise_std=0.6, actor_hidden_dims=(128, 64, 32), critic_hidden_dims=(128, 64, 32)
    )
    algorithm: PPOConfig = PPOConfig(
        desired_kl=0.02, final_desired_kl=0.008, entropy_coef=0.005, final_entropy_coef=0.001
    )
    runner: RunnerConfig = RunnerConfig(
        num_steps_per_env=16, max_iterations=2500, save_interval=100, experiment_name="g1_flat"
    )
