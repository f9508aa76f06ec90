"""Environments of the package gymnasium with one recipe; short trainings have larger steps."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.config.experiment import TrainConfig
from rsl_rl.config.learn import RunnerConfig
from rsl_rl.config.policy import ActorCriticConfig
from rsl_rl.config.task import GymnasiumConfig

NUM_ENVS, NUM_STEPS = 32, 64
UPDATES_OF_A_MILLION_STEPS = 1_000_000 // (NUM_ENVS * NUM_STEPS)


@dataclass(frozen=True)
class Gymnasium(TrainConfig):
    """The recipe, for an environment with numbers as actions that --env.id names: a million environment steps."""

    task: str = "gymnasium"
    env: GymnasiumConfig = GymnasiumConfig(num_envs=NUM_ENVS)  # type: ignore[assignment]  # another task
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
        num_mini_batches=32,
        learning_rate=5e-4,
        entropy_coef=0.0,
        use_clipped_value_loss=False,
        schedule="linear",
        recompute_advantages=True,
        max_grad_norm=0.5,
    )
    runner: RunnerConfig = RunnerConfig(
        num_steps_per_env=NUM_STEPS,
        max_iterations=UPDATES_OF_A_MILLION_STEPS,
        save_interval=100,
        experiment_name="gymnasium",
        init_at_random_ep_len=False,  # Gymnasium starts the episodes itself
    )


@dataclass(frozen=True)
class GymHalfCheetah(Gymnasium):
    """A planar cheetah that runs."""

    task: str = "gym_halfcheetah"
    env: GymnasiumConfig = replace(Gymnasium.env, id="HalfCheetah-v5")
    runner: RunnerConfig = replace(Gymnasium.runner, experiment_name="gym_halfcheetah")


@dataclass(frozen=True)
class GymHopper(Gymnasium):
    """A planar leg that hops."""

    task: str = "gym_hopper"
    env: GymnasiumConfig = replace(Gymnasium.env, id="Hopper-v5")
    runner: RunnerConfig = replace(Gymnasium.runner, experiment_name="gym_hopper")


@dataclass(frozen=True)
class GymWalker2d(Gymnasium):
    """A planar robot with two legs that walks."""

    task: str = "gym_walker2d"
    env: GymnasiumConfig = replace(Gymnasium.env, id="Walker2d-v5")
    runner: RunnerConfig = replace(Gymnasium.runner, experiment_name="gym_walker2d")


_SHORT = replace(Gymnasium.algorithm, learning_rate=1e-3, num_mini_batches=16)
"""Settings of trainings that are much shorter than a million steps."""


@dataclass(frozen=True)
class GymPendulum(Gymnasium):
    """A pendulum that is swung up, in fewer steps."""

    task: str = "gym_pendulum"
    env: GymnasiumConfig = replace(Gymnasium.env, id="Pendulum-v1")
    algorithm: PPOConfig = _SHORT
    runner: RunnerConfig = replace(Gymnasium.runner, experiment_name="gym_pendulum", max_iterations=40)


@dataclass(frozen=True)
class GymCartPole(Gymnasium):
    """A pole that is balanced on a cart, by one of two actions, in fewer steps."""

    task: str = "gym_cartpole"
    env: GymnasiumConfig = replace(Gymnasium.env, id="CartPole-v1")
    policy: ActorCriticConfig = replace(Gymnasium.policy, distribution="categorical")
    algorithm: PPOConfig = _SHORT
    runner: RunnerConfig = replace(Gymnasium.runner, experiment_name="gym_cartpole", max_iterations=20)
