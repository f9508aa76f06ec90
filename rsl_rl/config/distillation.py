"""Settings of distillation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Tuple

from rsl_rl.config.algorithm import AlgorithmConfig, PPOConfig, ValueLearningConfig
from rsl_rl.config.base import require_choice, require_counts, require_field, require_unique, require_within
from rsl_rl.config.policy import ActorCriticConfig


@dataclass(frozen=True)
class DistillationConfig(ValueLearningConfig, AlgorithmConfig):
    """Imitation of a trained policy by one that observes less, on the states that the latter visits (Ross et al. 2011,
    https://arxiv.org/abs/1011.0686)."""

    builds: ClassVar[str] = "rsl_rl.algorithms.distillation:Distillation"

    teacher_run: str = ""
    """Folder of the teacher's training run, or one of its checkpoint files. Must be given."""
    teacher_checkpoint: int = -1
    """Iteration of the teacher's checkpoint in that folder; -1 for the newest."""
    teacher: ActorCriticConfig = field(default_factory=ActorCriticConfig)
    """Networks of the teacher; the config.yaml of the teacher's run overrides the values."""
    teacher_groups: Tuple[str, ...] = ()
    """Observation groups that the teacher's actor reads here, in its order; empty: those of its training."""
    teacher_share: float = 0.0
    """Share of the environments in which the teacher acts, in the first rollout. It acts with the student's noise."""
    teacher_updates: int = 0
    """Updates over which this share falls linearly to 0; 0: it stays."""
    loss_type: str = "mse"
    """Loss of the student's mean action: 'mse', or 'huber', which is linear beyond a difference of 1."""

    def for_acting(self) -> AlgorithmConfig:
        return PPOConfig(num_mini_batches=1, ema_decay=self.ema_decay)  # a policy acts without its teacher

    def teacher_share_after(self, num_updates: int) -> float:
        """Return the share of the environments in which the teacher acts after a number of updates."""
        if self.teacher_updates == 0:
            return self.teacher_share
        return self.teacher_share * max(0.0, 1.0 - num_updates / self.teacher_updates)

    def __post_init__(self):
        super().__post_init__()
        require_counts(self, -1, "teacher_checkpoint")
        require_unique(self, "teacher_groups")
        require_within(self, 0, 1, "teacher_share")
        require_counts(self, 0, "teacher_updates")
        falls = self.teacher_updates == 0 or self.teacher_share > 0
        require_field(self, "teacher_updates", falls, " lowers teacher_share; set it above 0 too")
        require_choice(self, ("mse", "huber"), "loss_type")
