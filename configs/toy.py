"""Tasks without physics: the whole path in seconds."""

from __future__ import annotations

from dataclasses import dataclass, field

from configs.train_config import TrainConfig
from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.config.learn import RunnerConfig
from rsl_rl.config.policy import ActorCriticConfig, ActorCriticRecurrentConfig
from rsl_rl.config.task import RecallConfig, ToyConfig


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
    """A sign shown once is to be told until the episode ends; a policy without memory earns next to nothing."""

    task: str = "recall"
    env: RecallConfig = field(default_factory=RecallConfig)
    policy: ActorCriticRecurrentConfig = ActorCriticRecurrentConfig(
        rnn_type="gru", rnn_hidden_size=16, actor_hidden_dims=(16,), critic_hidden_dims=(16,)
    )
    algorithm: PPOConfig = PPOConfig(entropy_coef=0.0)
    runner: RunnerConfig = RunnerConfig(
        num_steps_per_env=24, max_iterations=60, save_interval=20, experiment_name="recall"
    )
