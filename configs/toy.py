"""A point that learns to come to the origin: the whole path in seconds."""

from __future__ import annotations

from dataclasses import dataclass, field

from configs.train_config import TrainConfig
from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.config.learn import RunnerConfig
from rsl_rl.config.policy import ActorCriticConfig
from rsl_rl.config.task import ToyConfig


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
