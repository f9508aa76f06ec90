"""Unitree Go2, following reference motions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.config.experiment import TrainConfig
from rsl_rl.config.learn import RunnerConfig
from rsl_rl.config.mdp import ControlConfig
from rsl_rl.config.policy import SymmetricActorCriticConfig
from rsl_rl.config.task import LeggedRobotConfig

from .go2_flat import flat_task
from .tracking import tracking_task

CLIPS = ("trot speed=0.3", "trot speed=0.7", "bound", "sit", "stand_up")

_LEGS = ("FL", "FR", "RL", "RR")
KEY_BODIES = ("trunk", *(f"{leg}_{part}" for part in ("thigh", "calf", "foot") for leg in _LEGS))
"""Links and feet that are compared with the reference."""


def track_task() -> LeggedRobotConfig:
    """Return the task; others replace its clips."""
    flat = replace(flat_task(), control=ControlConfig(stiffness=40.0, damping=1.0))
    return tracking_task(flat, KEY_BODIES, CLIPS)


@dataclass(frozen=True)
class Go2Track(TrainConfig):
    """Unitree Go2, following reference motions: trot, bound, sit and stand up, in one policy."""

    task: str = "go2_track"
    env: LeggedRobotConfig = field(default_factory=track_task)
    policy: SymmetricActorCriticConfig = SymmetricActorCriticConfig(
        init_noise_std=0.6, actor_hidden_dims=(256, 128, 64), critic_hidden_dims=(256, 128, 64)
    )
    algorithm: PPOConfig = PPOConfig(
        desired_kl=0.015, final_desired_kl=0.006, entropy_coef=0.003, final_entropy_coef=0.0005
    )
    runner: RunnerConfig = RunnerConfig(max_iterations=480, save_interval=60, experiment_name="go2_track")
