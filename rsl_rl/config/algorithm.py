"""Settings of the learning algorithm."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Optional, Tuple, TypeVar

from rsl_rl.config.base import (
    Config,
    Settings,
    linear,
    require_choice,
    require_counts,
    require_field,
    require_not_negative,
    require_positive,
    require_unique,
    require_within,
)
from rsl_rl.config.policy import ActorCriticConfig
from rsl_rl.utils.registry import import_object

LAST_FN_TYPES = ("last", "drop", "null_padding")

SurrogateConfigT = TypeVar("SurrogateConfigT", bound="SurrogateConfig")


class AlgorithmConfig(Config):
    """Base class of algorithm configs; ``builds`` is the path of a subclass of ``Algorithm``."""

    section: ClassVar[str] = "algorithm"
    default_kind: ClassVar[str] = "PPOConfig"

    def for_acting(self) -> AlgorithmConfig:
        """Return a config for the smallest rollout, to load a policy for inference."""
        return self

    def build_for(self, cfg: Any, env: Any, device: Any) -> Any:
        """Return the algorithm for an environment, by ``from_env`` of the class that ``builds`` names; ``cfg`` is the
        whole LearnConfig."""
        return import_object(self.builds).from_env(cfg, env, device)


@dataclass(frozen=True)
class OnPolicyConfig(Settings):
    """Settings of algorithms that learn from rollouts by gradient steps on mini-batches."""

    section: ClassVar[str] = "algorithm"

    num_learning_epochs: int = 5
    """Passes over each rollout."""
    num_mini_batches: int = 4
    """Mini-batches per pass, with one gradient step each."""
    gamma: float = 0.99
    """Discount factor per control step."""
    learning_rate: float = 1e-3
    """Learning rate of Adam; the initial one if a schedule changes it."""
    max_grad_norm: float = 1.0
    """Max gradient norm of the actor, and of the critic; a larger gradient is scaled down."""
    joint_grad_norm: bool = False
    """Clip one norm over all parameters, as rsl_rl did up to 3.x. Off, as in rsl_rl 4 and 5, a large gradient of the
    critic does not shrink that of the actor."""
    ema_decay: float = 0.0
    """Decay per update of the exponential average of the weights for evaluation and export; 0: no average."""
    unroll_len: int = 0
    """Steps that a policy with memory backpropagates through time, also called bptt_length; 0: the whole rollout."""
    last_fn_type: str = "last"
    """Use of the steps that remain after chunks of unroll_len: 'last' adds a chunk of the last unroll_len steps, 'drop'
    drops them, 'null_padding' adds a chunk with padding."""
    burn_in: int = 0
    """Steps before each chunk of unroll_len from which its recurrent state is computed, without learning."""

    def __post_init__(self):
        super().__post_init__()
        require_counts(self, 1, "num_learning_epochs", "num_mini_batches", high=1_000_000)
        require_counts(self, 0, "unroll_len", "burn_in")
        require_within(self, 0, 1, "gamma")
        require_positive(self, "learning_rate", "max_grad_norm")
        require_within(self, 0, 1, "learning_rate")
        require_field(self, "ema_decay", 0 <= self.ema_decay < 1, " must lie in [0, 1)")
        require_choice(self, LAST_FN_TYPES, "last_fn_type")
        for name, off in (("burn_in", 0), ("last_fn_type", "last")):
            fits = self.unroll_len > 0 or getattr(self, name) == off
            require_field(self, name, fits, f" has no effect without chunks; set unroll_len too, or {name} to {off!r}")

    def learning_rate_at(self, progress: float) -> Optional[float]:
        """Return the learning rate after a share of the training, from 0 to 1; None if the schedule
        does not depend on the progress."""
        return None


@dataclass(frozen=True)
class ValueLearningConfig(OnPolicyConfig):
    """Settings of algorithms that also learn the values of states."""

    lam: float = 0.95
    """Lambda of the generalised advantage estimate: 0 uses the critic only, 1 the rewards of the rollout only."""
    value_loss_coef: float = 1.0
    """Weight of the value loss."""
    recompute_advantages: bool = False
    """Estimate returns and advantages again before each pass over the rollout but the first, with the values of the
    critic as learned by then."""

    def __post_init__(self):
        super().__post_init__()
        require_within(self, 0, 1, "lam")
        require_not_negative(self, "value_loss_coef")


@dataclass(frozen=True)
class SurrogateConfig(OnPolicyConfig):
    """Settings of the clipped surrogate, and of the learning rate that follows its steps."""

    clip_param: float = 0.2
    """Clipping range of the probability ratio, and of the change of values."""
    entropy_coef: float = 0.01
    """Weight of the entropy bonus."""
    final_entropy_coef: Optional[float] = None
    """Weight of the entropy bonus at the end of the training, to which it changes linearly; None: it stays."""
    schedule: str = "adaptive"
    """Learning rate in the course of the training: 'fixed', 'adaptive' (follow desired_kl within [1e-5, 1e-2]), or
    'linear' (fall in equal steps to zero at the end of the training)."""
    desired_kl: Optional[float] = 0.01
    """Target KL divergence per gradient step of the adaptive schedule [nats]; may be none with another schedule."""
    final_desired_kl: Optional[float] = None
    """Target KL divergence at the end of the training, to which it changes linearly; None: it stays."""
    annealing_share: float = 1.0
    """Share of the training after which the final values are reached."""

    def __post_init__(self):
        super().__post_init__()
        require_positive(self, "clip_param")
        if self.desired_kl is not None:
            require_positive(self, "desired_kl")
        aims = self.desired_kl is not None or self.schedule != "adaptive"
        require_field(self, "desired_kl", aims, ": the adaptive schedule needs a target; give one, or schedule='fixed'")
        require_not_negative(self, "entropy_coef")
        require_field(self, "annealing_share", 0 < self.annealing_share <= 1, " must lie in (0, 1]")
        if self.final_entropy_coef is not None:
            require_not_negative(self, "final_entropy_coef")
        require_choice(self, ("fixed", "adaptive", "linear"), "schedule")
        if self.final_desired_kl is not None:
            require_positive(self, "final_desired_kl")
            adapts = self.schedule == "adaptive"
            require_field(
                self, "final_desired_kl", adapts, " has no effect; set schedule to 'adaptive', or leave it out"
            )

    def learning_rate_at(self, progress: float) -> Optional[float]:
        return self.learning_rate * (1.0 - progress) if self.schedule == "linear" else None

    def at(self: SurrogateConfigT, progress: float) -> SurrogateConfigT:
        """Return the settings of an update after a share of the training, from 0 to 1."""
        changed = {
            name: linear(getattr(self, name), end, min(1.0, progress / self.annealing_share))
            for name, end in (("entropy_coef", self.final_entropy_coef), ("desired_kl", self.final_desired_kl))
            if end is not None
        }
        return replace(self, **changed) if changed else self


@dataclass(frozen=True)
class PPOConfig(ValueLearningConfig, SurrogateConfig, AlgorithmConfig):
    """Proximal policy optimisation, https://arxiv.org/abs/1707.06347."""

    builds: ClassVar[str] = "rsl_rl.algorithms.ppo:PPO"

    use_clipped_value_loss: bool = True
    """Limit the value's change per update to clip_param."""
    normalize_advantage_per_mini_batch: bool = False
    """Normalise advantages in each mini-batch instead of once over the rollout."""

    def for_acting(self) -> PPOConfig:
        return replace(self, num_mini_batches=1, unroll_len=0, last_fn_type="last", burn_in=0)


@dataclass(frozen=True)
class GRPOConfig(SurrogateConfig, AlgorithmConfig):
    """Group relative policy optimisation, https://arxiv.org/abs/2402.03300: PPO without a critic. The advantage of a
    step is its return relative to the returns of other environments of its group."""

    builds: ClassVar[str] = "rsl_rl.algorithms.grpo:GRPO"

    gamma: float = 1.0
    """Discount factor per control step."""
    entropy_coef: float = 0.0
    """Weight of the entropy bonus."""
    group_size: int = 8
    """Environments of a group. If the environment supports it, the episodes of a group start in the same state."""
    credit: str = "to_go"
    """Rewards that a step is credited with: those of its episode from this step on ('to_go'), or all of them
    ('sequence')."""
    scale_advantages: bool = True
    """Divide advantages by the standard deviation over the group."""
    restart_episodes: bool = True
    """Begin each rollout with new episodes, and learn from the first one of each environment. Without it, episodes go
    on from one rollout to the next, and all steps are learned from."""

    def for_acting(self) -> AlgorithmConfig:
        return PPOConfig(num_mini_batches=1, ema_decay=self.ema_decay)  # a policy acts without its group

    def __post_init__(self):
        super().__post_init__()
        require_counts(self, 2, "group_size")
        require_choice(self, ("to_go", "sequence"), "credit")
        whole = self.credit == "to_go" or self.restart_episodes
        require_field(self, "credit", whole, " needs whole sequences; set restart_episodes to true")


@dataclass(frozen=True)
class DistillationConfig(ValueLearningConfig, AlgorithmConfig):
    """Imitation of a trained policy by one that observes less, on the states that the student visits (Ross et al. 2011,
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
