"""Environments of the package gymnasium, all with one recipe."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.config.experiment import TrainConfig
from rsl_rl.config.gymnasium_task import GymnasiumConfig
from rsl_rl.config.learn import RunnerConfig
from rsl_rl.config.policy import ActorCriticConfig


@dataclass(frozen=True)
class Gymnasium(TrainConfig):
    """Any environment with bounded actions: --env.id names it."""

    task: str = "gymnasium"
    env: GymnasiumConfig = field(default_factory=GymnasiumConfig)  # type: ignore[assignment]  # another task
    policy: ActorCriticConfig = ActorCriticConfig(
        actor_hidden_dims=(64, 64),
        critic_hidden_dims=(64, 64),
        activation="tanh",
        init_noise_std=0.6,
        noise_std_type="log",
        initialization="orthogonal",
        actor_obs_normalization=True,
        critic_obs_normalization=True,
        value_normalization=True,
    )
    algorithm: PPOConfig = PPOConfig(
        num_learning_epochs=10,
        num_mini_batches=16,
        learning_rate=3e-4,
        entropy_coef=0.0,
        use_clipped_value_loss=False,
        schedule="fixed",
        max_grad_norm=0.5,
    )
    runner: RunnerConfig = RunnerConfig(
        num_steps_per_env=64,
        max_iterations=488,
        save_interval=100,
        experiment_name="gymnasium",
        init_at_random_ep_len=False,
    )
