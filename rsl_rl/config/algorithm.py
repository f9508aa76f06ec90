"""Settings of the learning algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rsl_rl.config.base import (
    Config,
    require_choice,
    require_counts,
    require_field,
    require_not_negative,
    require_positive,
    require_within,
)

LAST_FN_TYPES = ("last", "drop", "null_padding")


@dataclass(frozen=True)
class PPOConfig(Config):
    """Proximal policy optimisation, https://arxiv.org/abs/1707.06347."""

    section: ClassVar[str] = "algorithm"
    builds: ClassVar[str] = "rsl_rl.algorithms.ppo:PPO"

    num_learning_epochs: int = 5
    """Passes over each rollout."""
    num_mini_batches: int = 4
    """Parts that a pass is cut into; one gradient step each."""
    clip_param: float = 0.2
    """Largest change of the action's probability ratio that earns advantage; also clips the value's change."""
    gamma: float = 0.99
    """Discount of the future per control step."""
    lam: float = 0.95
    """Lambda of the generalised advantage estimate: 0 trusts the critic, 1 the rewards seen."""
    value_loss_coef: float = 1.0
    """Weight of the value loss."""
    use_clipped_value_loss: bool = True
    """Limit the value's change per update to clip_param."""
    entropy_coef: float = 0.01
    """Weight of the entropy bonus."""
    learning_rate: float = 1e-3
    """Adam's step size; the first one where the schedule is adaptive."""
    schedule: str = "adaptive"
    """'fixed', or 'adaptive': follow desired_kl within [1e-5, 1e-2]."""
    desired_kl: float = 0.01
    """KL divergence of the policy per gradient step that the adaptive schedule aims at [nats]."""
    max_grad_norm: float = 1.0
    """Longest gradient of the actor, and of the critic; a longer one is scaled down."""
    unroll_len: int = 0
    """Steps that a policy with memory backpropagates through time; 0: the whole rollout."""
    last_fn_type: str = "last"
    """What becomes of the steps that unroll_len leaves over: 'last' learns from the last unroll_len steps instead,
    'drop' leaves them out, 'null_padding' learns from them alone."""
    burn_in: int = 0
    """Steps before each chunk of unroll_len that renew its memory with the present weights, without learning."""

    def __post_init__(self):
        super().__post_init__()
        require_counts(self, 1, "num_learning_epochs", "num_mini_batches", high=1_000_000)
        require_counts(self, 0, "unroll_len", "burn_in")
        require_within(self, 0, 1, "gamma", "lam")
        require_positive(self, "clip_param", "learning_rate", "desired_kl", "max_grad_norm")
        require_not_negative(self, "value_loss_coef", "entropy_coef")
        require_choice(self, ("fixed", "adaptive"), "schedule")
        require_choice(self, LAST_FN_TYPES, "last_fn_type")
        chunks = self.unroll_len > 0
        require_field(
            self,
            "burn_in",
            self.burn_in == 0 or chunks,
            " renews the memories of chunks; set unroll_len too, or burn_in to 0",
        )
        require_field(
            self,
            "last_fn_type",
            self.last_fn_type == "last" or chunks,
            " is for what unroll_len leaves over; set unroll_len too, or last_fn_type to 'last'",
        )
