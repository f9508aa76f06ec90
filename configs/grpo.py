"""Tasks without physics for group relative policy optimisation: they train in seconds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rsl_rl.config.algorithm import GRPOConfig
from rsl_rl.config.experiment import TrainConfig
from rsl_rl.config.learn import RunnerConfig
from rsl_rl.config.policy import ActorCriticConfig
from rsl_rl.config.task import ReverseConfig, TargetSumConfig, ToyConfig


@dataclass(frozen=True)
class ToyGRPO(TrainConfig):
    """The point of toy, without a critic: a rollout is one episode, and a group starts it in the same place."""

    task: str = "toy_grpo"
    env: ToyConfig = field(default_factory=ToyConfig)
    policy: ActorCriticConfig = ActorCriticConfig(actor_hidden_dims=(32, 32), critic_hidden_dims=())
    algorithm: GRPOConfig = GRPOConfig(gamma=0.95)
    runner: RunnerConfig = RunnerConfig(
        num_steps_per_env=48,
        max_iterations=30,
        save_interval=20,
        experiment_name="toy_grpo",
        init_at_random_ep_len=False,
    )


@dataclass(frozen=True)
class Reverse(TrainConfig):
    """Sequences of tokens that are to be written backwards, rewarded at their end."""

    task: str = "reverse"
    env: ReverseConfig = field(default_factory=ReverseConfig)
    policy: ActorCriticConfig = ActorCriticConfig(
        actor_hidden_dims=(64,), critic_hidden_dims=(), distribution="categorical"
    )
    algorithm: GRPOConfig = GRPOConfig(credit="sequence", desired_kl=0.03)
    runner: RunnerConfig = RunnerConfig(
        num_steps_per_env=4,
        max_iterations=150,
        save_interval=50,
        experiment_name="reverse",
        init_at_random_ep_len=False,
    )


@dataclass(frozen=True)
class TargetSum(Reverse):
    """Digits that must add up to a number: an answer is right or wrong, and has the reward 1 or 0."""

    task: str = "target_sum"
    env: TargetSumConfig = field(default_factory=TargetSumConfig)  # type: ignore[assignment]  # another task
    runner: RunnerConfig = replace(Reverse.runner, experiment_name="target_sum")
