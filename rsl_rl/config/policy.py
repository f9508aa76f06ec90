"""Settings of the networks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Dict, Tuple

from rsl_rl.config.base import (
    Config,
    Settings,
    require,
    require_choice,
    require_counts,
    require_field,
    require_unique,
)

ACTIVATIONS = (
    "elu", "selu", "relu", "lrelu", "tanh", "sigmoid", "silu", "gelu", "softplus", "mish", "celu", "identity",
)  # fmt: skip

DISTRIBUTIONS = ("gaussian", "beta", "categorical")

MAX_UNITS = 16_384
"""Largest size of a layer."""


@dataclass(frozen=True)
class CNNConfig(Settings):
    """A convolutional encoder of an observation group [N, C, H, W], or of a height map [N, H, W]."""

    section: ClassVar[str] = "policy.cnn"

    channels: Tuple[int, ...] = (16, 32)
    """Output channels of each convolution."""
    kernel_size: int = 3
    """Height and width of each kernel; the padding is half of it."""
    stride: int = 2
    """Stride of each convolution."""
    activation: str = "elu"
    """Non-linearity behind each layer: elu, selu, relu, lrelu, tanh, sigmoid, silu, gelu, softplus, mish, celu or
    identity."""
    num_features: int = 64
    """Outputs of the linear layer behind the convolutions."""

    def __post_init__(self):
        super().__post_init__()
        fit = len(self.channels) > 0 and all(0 < channels <= MAX_UNITS for channels in self.channels)
        require_field(self, "channels", fit, f": give one or more whole numbers from 1 to {MAX_UNITS}")
        require_counts(self, 1, "kernel_size", "stride", high=100)
        require_counts(self, 1, "num_features", high=MAX_UNITS)
        require_choice(self, ACTIVATIONS, "activation")


@dataclass(frozen=True)
class ActorCriticConfig(Config):
    """Two multi-layer perceptrons: observations to the mean action, and observations to the value."""

    section: ClassVar[str] = "policy"
    builds: ClassVar[str] = "rsl_rl.modules.policy:ActorCritic"

    actor_hidden_dims: Tuple[int, ...] = (256, 256, 256)
    """Units of each hidden layer of the actor."""
    critic_hidden_dims: Tuple[int, ...] = (256, 256, 256)
    """Units of each hidden layer of the critic."""
    activation: str = "elu"
    """Non-linearity: elu, selu, relu, lrelu, tanh, sigmoid, silu, gelu, softplus, mish, celu or identity."""
    init_noise_std: float = 1.0
    """Standard deviation of the exploration noise at the start [action units]."""
    noise_std_type: str = "scalar"
    """What is learned: the standard deviation itself ('scalar') or its logarithm ('log')."""
    min_noise_std: float = 0.01
    """Smooth lower bound of the standard deviation [action units]."""
    distribution: str = "gaussian"
    """Distribution over actions: gaussian, beta (actions in [-1, 1]) or categorical (one of num_actions choices)."""
    state_dependent_std: bool = False
    """Compute the standard deviation of a gaussian by the actor, for each state."""
    initialization: str = "default"
    """Weights of the linear layers: torch's own ('default') or 'orthogonal'."""
    actor_obs_normalization: bool = False
    """Normalise the actor's observations by their running mean and variance."""
    critic_obs_normalization: bool = False
    """Normalise the critic's observations by their running mean and variance."""
    value_normalization: bool = False
    """Normalise the critic's targets by the running mean and variance of the returns."""
    actor_groups: Tuple[str, ...] = ("policy",)
    """Observation groups that the actor reads, concatenated in this order."""
    critic_groups: Tuple[str, ...] = ()
    """Observation groups that the critic reads; empty: 'critic' if the environment has it, else the actor's groups."""
    cnn: Dict[str, CNNConfig] = field(default_factory=dict)
    """Encoders of image and height-map groups by name of the group; the default is CNNConfig()."""

    def __post_init__(self):
        super().__post_init__()
        require_choice(self, DISTRIBUTIONS, "distribution")
        gaussian = not self.state_dependent_std or self.distribution == "gaussian"
        require_field(self, "state_dependent_std", gaussian, " is for distribution='gaussian'; set it to false")
        for name in ("actor_hidden_dims", "critic_hidden_dims"):
            fit = all(0 < units <= MAX_UNITS for units in getattr(self, name))
            require_field(self, name, fit, f": give whole numbers from 1 to {MAX_UNITS}")
        require_choice(self, ACTIVATIONS, "activation")
        require_choice(self, ("scalar", "log"), "noise_std_type")
        require_choice(self, ("default", "orthogonal"), "initialization")
        require_field(self, "min_noise_std", self.min_noise_std > 0, ": give a positive floor, such as 0.01")
        above = self.init_noise_std > self.min_noise_std
        require_field(self, "init_noise_std", above, f" must lie above min_noise_std={self.min_noise_std}")
        require(
            len(self.actor_groups) > 0,
            "policy.actor_groups is empty; name at least one observation group, such as 'policy'",
        )
        require_unique(self, "actor_groups", "critic_groups")


MirrorTuple = Tuple[Tuple[int, ...], Tuple[float, ...]]
"""Left-right mirror image of a vector x: x[index] * sign."""


@dataclass(frozen=True)
class SymmetricActorCriticConfig(ActorCriticConfig):
    """Networks with left-right symmetry by construction, for robots with two equal sides."""

    builds: ClassVar[str] = "rsl_rl.modules.policy:SymmetricActorCritic"

    actor_mirror: MirrorTuple = ((), ())
    """Mirror image of the actor's observation; given by the environment, do not set it."""
    critic_mirror: MirrorTuple = ((), ())
    """Mirror image of the critic's observation; given by the environment, do not set it."""
    action_mirror: MirrorTuple = ((), ())
    """Mirror image of the action; given by the environment, do not set it."""
    image_mirrors: Dict[str, MirrorTuple] = field(default_factory=dict)
    """Mirror image of each image group along its last axis; given by the environment, do not set it."""

    def __post_init__(self):
        super().__post_init__()
        for name in ("actor_hidden_dims", "critic_hidden_dims"):
            even = all(units % 2 == 0 for units in getattr(self, name))
            require_field(self, name, even, ": symmetric layers have two halves, so give even numbers")
        for name in ("actor_obs_normalization", "critic_obs_normalization"):
            off = not getattr(self, name)
            require_field(self, name, off, ": running statistics are not symmetric; leave it off here")
        plain = self.initialization == "default"
        require_field(self, "initialization", plain, " is not for symmetric layers; take 'default'")
        for name in ("actor_mirror", "critic_mirror", "action_mirror"):
            require_field(
                self,
                name,
                _is_mirror(*getattr(self, name)),
                " is not a mirror image: give an index and a sign (1 or -1) for each entry, such that the image of the "
                "image is the vector again",
            )


@dataclass(frozen=True)
class ActorCriticRecurrentConfig(ActorCriticConfig):
    """An actor and a critic with a GRU or LSTM each."""

    builds: ClassVar[str] = "rsl_rl.modules.policy:ActorCriticRecurrent"

    rnn_type: str = "lstm"
    """Kind of memory: lstm or gru."""
    rnn_hidden_size: int = 256
    """Size of the memory's state in each layer."""
    rnn_num_layers: int = 1
    """Layers of the memory."""
    memory_of: Tuple[str, ...] = ("actor", "critic")
    """Networks that have a memory; the other one reads only the current observation."""

    def __post_init__(self):
        super().__post_init__()
        require_field(self, "rnn_type", self.rnn_type.lower() in ("lstm", "gru"), "; allowed: lstm, gru")
        fits = len(self.memory_of) > 0 and set(self.memory_of) <= {"actor", "critic"}
        require_field(self, "memory_of", fits, ": give 'actor', 'critic' or both")
        require_counts(self, 1, "rnn_hidden_size", high=MAX_UNITS)
        require_counts(self, 1, "rnn_num_layers", high=100)


@dataclass(frozen=True)
class SymmetricActorCriticRecurrentConfig(SymmetricActorCriticConfig, ActorCriticRecurrentConfig):
    """Recurrent networks with left-right symmetry by construction."""

    builds: ClassVar[str] = "rsl_rl.modules.policy:SymmetricActorCriticRecurrent"

    def __post_init__(self):
        super().__post_init__()
        even = self.rnn_hidden_size % 2 == 0
        require_field(self, "rnn_hidden_size", even, ": symmetric memories have two halves, so give an even number")


def _is_mirror(index: Tuple[int, ...], sign: Tuple[float, ...]) -> bool:
    places = range(len(index))
    return (
        len(sign) == len(index)
        and set(sign) <= {1.0, -1.0}
        and all(i in places for i in index)
        and all(index[index[i]] == i and sign[index[i]] == sign[i] for i in places)
    )
