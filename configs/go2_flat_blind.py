"""Unitree Go2 on flat ground without any velocity among the observations, and with more randomisation."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.config.experiment import TrainConfig
from rsl_rl.config.learn import RunnerConfig
from rsl_rl.config.mdp import ObservationGroupConfig
from rsl_rl.config.policy import SymmetricActorCriticConfig, SymmetricActorCriticRecurrentConfig
from rsl_rl.config.task import LeggedRobotConfig

from .go2_flat import go2_task


def blind_task() -> LeggedRobotConfig:
    """Return go2_task with gravity, joint angles, the command and the gait clock as the only observations of the
    policy, and with more randomisation. The observations of the critic are the same.

    The rewards of tracking and of stepping are heavier than in go2_flat, because otherwise policies learn to stand
    still before they can infer their velocity. The rewards of tracking are also narrower: with the width of go2_flat,
    policies walk slower than fast commands ask.
    """
    task = go2_task()
    sensed = {
        name: task.observations["policy"].terms[name] for name in ("gravity", "command", "joint_pos", "gait_clock")
    }
    return replace(
        task,
        observations={**task.observations, "policy": ObservationGroupConfig(sensed)},
        rewards=task.rewards.with_weights({"track_lin_vel": 3.0, "track_yaw_rate": 2.25, "foot_timing": 1.5})
        .with_params("track_lin_vel", tracking_sigma=0.15)
        .with_params("track_yaw_rate", tracking_sigma=0.15),
        randomization=task.randomization.with_params(
            "model_parameters",
            friction=(0.2, 1.5),
            payload=(-1.0, 4.0),
            stiffness_scale=(0.8, 1.2),
            damping_scale=(0.8, 1.2),
        ),
        gate={
            "fall_rate": 0.03,
            "lin_vel_error": 0.25,
            "yaw_rate_error": 0.25,
            "failures_per_hour": 0.5,
            "freezes_per_hour": 0.0,
            "pushed_failures_per_hour": 1.0,
            "dead_zone": 0.05,
            "stop_drift": 0.05,
        },
    )


@dataclass(frozen=True)
class Go2FlatBlind(TrainConfig):
    """Unitree Go2 on flat ground without velocities among the observations; a GRU can infer them."""

    task: str = "go2_flat_blind"
    env: LeggedRobotConfig = field(default_factory=blind_task)
    policy: SymmetricActorCriticRecurrentConfig = SymmetricActorCriticRecurrentConfig(
        rnn_type="gru", rnn_hidden_size=64, actor_hidden_dims=(128, 64), critic_hidden_dims=(128, 64)
    )
    algorithm: PPOConfig = PPOConfig(
        desired_kl=0.02, final_desired_kl=0.008, entropy_coef=0.003, final_entropy_coef=0.001
    )
    runner: RunnerConfig = RunnerConfig(max_iterations=2400, save_interval=60, experiment_name="go2_flat_blind")


@dataclass(frozen=True)
class Go2FlatBlindMlp(Go2FlatBlind):
    """The same task for a network with as many weights and without memory, for comparison."""

    task: str = "go2_flat_blind_mlp"
    policy: SymmetricActorCriticConfig = SymmetricActorCriticConfig(  # type: ignore[assignment]  # another type of network
        actor_hidden_dims=(144, 144, 64), critic_hidden_dims=(144, 144, 64)
    )
    runner: RunnerConfig = replace(Go2FlatBlind.runner, experiment_name="go2_flat_blind_mlp")
