"""Tasks without physics, which train in seconds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Tuple

from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.config.experiment import TrainConfig
from rsl_rl.config.extensions import ExtensionConfig, RNDConfig
from rsl_rl.config.learn import RunnerConfig
from rsl_rl.config.policy import ActorCriticConfig, ActorCriticRecurrentConfig, CNNConfig
from rsl_rl.config.task import CameraConfig, ChoiceConfig, FarGoalConfig, RecallConfig, ToyConfig


@dataclass(frozen=True)
class Toy(TrainConfig):
    """A point that learns to come to the origin."""

    task: str = "toy"
    env: ToyConfig = field(default_factory=ToyConfig)
    policy: ActorCriticConfig = ActorCriticConfig(actor_hidden_dims=(32, 32), critic_hidden_dims=(32, 32))
    algorithm: PPOConfig = PPOConfig()
    runner: RunnerConfig = RunnerConfig(
        num_steps_per_env=16, max_iterations=40, save_interval=20, experiment_name="toy"
    )


@dataclass(frozen=True)
class Recall(TrainConfig):
    """Repeat a sign, observed once, until the episode ends; a policy without memory gets almost no reward."""

    task: str = "recall"
    env: RecallConfig = field(default_factory=RecallConfig)
    policy: ActorCriticRecurrentConfig = ActorCriticRecurrentConfig(
        rnn_type="gru", rnn_hidden_size=16, actor_hidden_dims=(16,), critic_hidden_dims=(16,)
    )
    algorithm: PPOConfig = PPOConfig(entropy_coef=0.0)
    runner: RunnerConfig = RunnerConfig(
        num_steps_per_env=24, max_iterations=60, save_interval=20, experiment_name="recall"
    )


@dataclass(frozen=True)
class Choice(TrainConfig):
    """Questions with several answers, for a policy over discrete actions."""

    task: str = "choice"
    env: ChoiceConfig = field(default_factory=ChoiceConfig)
    policy: ActorCriticConfig = ActorCriticConfig(
        actor_hidden_dims=(32,), critic_hidden_dims=(32,), distribution="categorical"
    )
    algorithm: PPOConfig = PPOConfig()
    runner: RunnerConfig = RunnerConfig(
        num_steps_per_env=16, max_iterations=40, save_interval=20, experiment_name="choice"
    )


@dataclass(frozen=True)
class Camera(TrainConfig):
    """A point that learns to come to the origin, and sees its position in an image only."""

    task: str = "camera"
    env: CameraConfig = field(default_factory=CameraConfig)
    policy: ActorCriticConfig = ActorCriticConfig(
        actor_hidden_dims=(32,),
        critic_hidden_dims=(32,),
        actor_groups=("policy", "camera"),
        cnn={"camera": CNNConfig(channels=(4, 8), num_features=16)},
    )
    algorithm: PPOConfig = PPOConfig()
    runner: RunnerConfig = RunnerConfig(
        num_steps_per_env=16, max_iterations=30, save_interval=20, experiment_name="camera"
    )


@dataclass(frozen=True)
class FarGoal(TrainConfig):
    """A sparse reward at the end of a row of rooms, which random actions do not find: a task for exploration."""

    task: str = "far_goal"
    env: FarGoalConfig = field(default_factory=FarGoalConfig)
    policy: ActorCriticConfig = ActorCriticConfig(
        actor_hidden_dims=(64,), critic_hidden_dims=(64,), distribution="categorical"
    )
    algorithm: PPOConfig = PPOConfig()
    runner: RunnerConfig = RunnerConfig(
        num_steps_per_env=32, max_iterations=200, save_interval=50, experiment_name="far_goal"
    )


@dataclass(frozen=True)
class FarGoalRND(FarGoal):
    """far_goal with a reward for novel observations, by random network distillation."""

    task: str = "far_goal_rnd"
    extensions: Tuple[ExtensionConfig, ...] = (RNDConfig(state_normalization=False),)
    runner: RunnerConfig = replace(FarGoal.runner, experiment_name="far_goal_rnd")
