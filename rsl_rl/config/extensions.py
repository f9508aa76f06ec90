"""Settings of extensions of an algorithm."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Dict, Tuple

from rsl_rl.config.base import (
    Config,
    require_choice,
    require_counts,
    require_field,
    require_not_negative,
    require_positive,
    require_unique,
    require_within,
)
from rsl_rl.config.policy import ACTIVATIONS
from rsl_rl.utils.registry import import_object


class ExtensionConfig(Config):
    """Base class of extension configs; ``builds`` is the path of a subclass of ``Extension``.

    Another package can derive a dataclass and set ``builds`` to its own class.
    """

    section: ClassVar[str] = "extensions"

    def build(self, env: Any, policy: Any, device: Any) -> Any:
        """Return the extension, by ``from_env`` of the class that ``builds`` names."""
        return import_object(self.builds).from_env(self, env=env, policy=policy, device=device)


@dataclass(frozen=True)
class SymmetryConfig(ExtensionConfig):
    """Left-right symmetry by mirrored samples (Mittal et al. 2024, https://arxiv.org/abs/2403.04359)."""

    builds: ClassVar[str] = "rsl_rl.extensions.symmetry:Symmetry"

    use_data_augmentation: bool = True
    """Append the mirror image of each sample to every mini-batch."""
    use_mirror_loss: bool = False
    """Add the squared difference between the action for a mirrored observation and the mirrored action to the loss;
    without it, the metric symmetry_loss reports that difference only."""
    mirror_loss_coeff: float = 0.0
    """Weight of that loss."""

    def __post_init__(self):
        super().__post_init__()
        require_not_negative(self, "mirror_loss_coeff")
        used = self.mirror_loss_coeff > 0 or not self.use_mirror_loss
        require_field(self, "mirror_loss_coeff", used, ": the mirror loss needs a positive weight, such as 1.0")


@dataclass(frozen=True)
class RNDConfig(ExtensionConfig):
    """Random network distillation: a reward for observations that a trained network predicts badly (Burda et al. 2018,
    https://arxiv.org/abs/1810.12894)."""

    builds: ClassVar[str] = "rsl_rl.extensions.random_network_distillation:RandomNetworkDistillation"

    groups: Tuple[str, ...] = ("policy",)
    """Observation groups whose novelty is rewarded, concatenated in this order."""
    weight: float = 1.0
    """Weight of the intrinsic reward per control step; rsl_rl multiplies its own by the step's duration."""
    weight_schedule: str = "constant"
    """'constant'; 'step': final_weight from final_step on; 'linear': from weight at initial_step to final_weight at
    final_step."""
    initial_step: int = 0
    """Control step of each environment at which the linear schedule begins."""
    final_step: int = 0
    """Control step of each environment at which the final weight is reached."""
    final_weight: float = 0.0
    """Weight of the intrinsic reward from final_step on."""
    state_normalization: bool = True
    """Normalise the observations by their running mean and variance."""
    reward_normalization: bool = True
    """Divide the intrinsic reward by the running deviation of its discounted sum, which goes on over episodes."""
    gamma: float = 0.99
    """Discount of that sum per control step."""
    num_outputs: int = 16
    """Outputs of both networks."""
    predictor_hidden_dims: Tuple[int, ...] = (64, 64)
    """Units of each hidden layer of the network that is trained."""
    target_hidden_dims: Tuple[int, ...] = (64, 64)
    """Units of each hidden layer of the random network."""
    activation: str = "elu"
    """Non-linearity: elu, selu, relu, lrelu, tanh, sigmoid, silu or gelu."""
    learning_rate: float = 1e-3
    """Learning rate of Adam for the predictor."""

    def __post_init__(self):
        super().__post_init__()
        require_field(self, "groups", len(self.groups) > 0, " is empty; name an observation group, such as 'policy'")
        require_unique(self, "groups")
        require_not_negative(self, "weight", "final_weight")
        require_choice(self, ("constant", "step", "linear"), "weight_schedule")
        require_counts(self, 0, "initial_step", "final_step")
        order = self.weight_schedule != "linear" or self.final_step > self.initial_step
        require_field(self, "final_step", order, ": the linear schedule must end after initial_step")
        require_field(self, "gamma", 0 <= self.gamma <= 1, " must lie in [0, 1]")
        require_counts(self, 1, "num_outputs", high=16_384)
        for name in ("predictor_hidden_dims", "target_hidden_dims"):
            fit = all(0 < units <= 16_384 for units in getattr(self, name))
            require_field(self, name, fit, ": give whole numbers from 1 to 16384")
        require_choice(self, ACTIVATIONS, "activation")
        require_positive(self, "learning_rate")


@dataclass(frozen=True)
class ReferenceKLConfig(ExtensionConfig):
    """A loss that keeps the policy near a reference policy: its own weights when the training began, or later."""

    builds: ClassVar[str] = "rsl_rl.extensions.reference_kl:ReferenceKL"

    weight: float = 0.04
    """Weight of the KL divergence from the reference policy [per nat]."""
    interval: int = 0
    """Updates after which the reference policy becomes the current one; 0: never."""

    def __post_init__(self):
        super().__post_init__()
        require_not_negative(self, "weight")
        require_counts(self, 0, "interval")


@dataclass(frozen=True)
class AMPConfig(ExtensionConfig):
    """Adversarial motion priors: a reward for transitions that look like those of reference motions (Peng et al. 2021,
    https://arxiv.org/abs/2104.02180)."""

    builds: ClassVar[str] = "rsl_rl.extensions.adversarial_motion_prior:AdversarialMotionPrior"

    motions: Dict[str, Tuple[str, ...]] = field(default_factory=dict)
    """Clips by style, files or names as in env.commands; with one style its name means nothing. Must be given."""
    group: str = "style"
    """Observation group that is the state of the discriminator; its terms depend on pose and velocity only, on
    the requested style, and on the clocks of its feet."""
    style_size: int = 0
    """Last numbers of the group that tell the requested style: a transition in which they change does not count."""
    source: str = "rsl_rl.tasks.demonstrations:states_of_clips"
    """Function that returns what the group observes in the clips, "package.module:function", see ``Source`` of
    rsl_rl.extensions.adversarial_motion_prior."""
    weight: float = 0.04
    """Largest reward per control step."""
    gradient_penalty: float = 10.0
    """Weight of the squared gradient of the discriminator at the clips."""
    replay_size: int = 16_384
    """Earlier transitions of the policy that are kept."""
    replay_share: float = 0.5
    """Share of the policy's transitions that the discriminator learns from which are earlier ones."""
    hidden_dims: Tuple[int, ...] = (128, 64)
    """Units of each hidden layer of the discriminator."""
    activation: str = "elu"
    """Non-linearity: elu, selu, relu, lrelu, tanh, sigmoid, silu or gelu."""
    learning_rate: float = 1e-4
    """Learning rate of Adam for the discriminator."""
    max_grad_norm: float = 1.0
    """Largest gradient norm of the discriminator; a larger gradient is scaled down."""

    def __post_init__(self):
        super().__post_init__()
        require_field(self, "group", bool(self.group), " is empty; name an observation group, such as 'style'")
        require_not_negative(self, "weight", "gradient_penalty")
        require_counts(self, 1, "replay_size", high=10_000_000)
        require_counts(self, 0, "style_size")
        require_within(self, 0, 1, "replay_share")
        fit = all(0 < units <= 16_384 for units in self.hidden_dims)
        require_field(self, "hidden_dims", fit, ": give whole numbers from 1 to 16384")
        require_choice(self, ACTIVATIONS, "activation")
        require_positive(self, "learning_rate", "max_grad_norm")
