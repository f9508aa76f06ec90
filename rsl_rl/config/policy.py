"""Settings of the networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Tuple

from rsl_rl.config.base import Config, require

ACTIVATIONS = ("elu", "selu", "relu", "lrelu", "tanh", "sigmoid", "silu", "gelu")


@dataclass(frozen=True)
class ActorCriticConfig(Config):
    """Two multi-layer perceptrons: observations to the mean action, and observations to the value."""

    builds: ClassVar[str] = "rsl_rl.modules.actor_critic:ActorCritic"

    actor_hidden_dims: Tuple[int, ...] = (256, 256, 256)
    """Units of each hidden layer of the actor."""
    critic_hidden_dims: Tuple[int, ...] = (256, 256, 256)
    """Units of each hidden layer of the critic."""
    activation: str = "elu"
    """Non-linearity: elu, selu, relu, lrelu, tanh, sigmoid, silu or gelu."""
    init_noise_std: float = 1.0
    """Standard deviation of the exploration noise at the start [action units]."""
    noise_std_type: str = "scalar"
    """What is learned: the standard deviation itself ('scalar') or its logarithm ('log')."""
    min_noise_std: float = 0.01
    """Smooth floor of the standard deviation: it bends towards this value and never falls below it [action units]."""
    initialization: str = "default"
    """Weights of the linear layers: torch's own ('default') or 'orthogonal'."""
    actor_obs_normalization: bool = False
    """Normalise the actor's observations by their running mean and variance."""
    critic_obs_normalization: bool = False
    """Normalise the critic's observations by their running mean and variance."""
    actor_groups: Tuple[str, ...] = ("policy",)
    """Observation groups that the actor reads, concatenated in this order."""
    critic_groups: Tuple[str, ...] = ()
    """Observation groups that the critic reads; empty: 'critic' where the environment has it, else the actor's groups.
    """

    def __post_init__(self):
        for name in ("actor_hidden_dims", "critic_hidden_dims"):
            dims = getattr(self, name)
            require(all(isinstance(d, int) and d > 0 for d in dims), f"{name}={dims!r}: give positive whole numbers")
        require(self.activation in ACTIVATIONS, f"activation='{self.activation}'; allowed: {', '.join(ACTIVATIONS)}")
        require(
            self.noise_std_type in ("scalar", "log"), f"noise_std_type='{self.noise_std_type}'; allowed: scalar, log"
        )
        require(
            self.initialization in ("default", "orthogonal"),
            f"initialization='{self.initialization}'; allowed: default, orthogonal",
        )
        require(self.min_noise_std > 0, f"min_noise_std={self.min_noise_std}: give a positive floor, such as 0.01")
        require(
            self.init_noise_std > self.min_noise_std,
            f"init_noise_std={self.init_noise_std} must lie above min_noise_std={self.min_noise_std}",
        )
        require(
            len(self.actor_groups) > 0, "actor_groups is empty; name at least one observation group, such as 'policy'"
        )


MirrorTuple = Tuple[Tuple[int, ...], Tuple[float, ...]]
"""Left-right mirror image of a vector x: x[index] * sign."""


@dataclass(frozen=True)
class SymmetricActorCriticConfig(ActorCriticConfig):
    """Networks that treat left and right alike by construction, for robots whose two sides are alike."""

    builds: ClassVar[str] = "rsl_rl.modules.symmetric:SymmetricActorCritic"

    actor_mirror: MirrorTuple = ((), ())
    """Mirror image of the actor's observation; asked of the environment, not set by hand."""
    critic_mirror: MirrorTuple = ((), ())
    """Mirror image of the critic's observation; asked of the environment."""
    action_mirror: MirrorTuple = ((), ())
    """Mirror image of the action; asked of the environment."""

    def __post_init__(self):
        super().__post_init__()
        for name in ("actor_hidden_dims", "critic_hidden_dims"):
            dims = getattr(self, name)
            require(
                all(d % 2 == 0 for d in dims),
                f"{name}={dims!r}: symmetric layers have two halves, so give even numbers",
            )
        for name in ("actor_obs_normalization", "critic_obs_normalization"):
            require(not getattr(self, name), f"{name}=True: running statistics are not symmetric; leave it off here")
        require(
            self.initialization == "default", "initialization='orthogonal' is not for symmetric layers; take 'default'"
        )


@dataclass(frozen=True)
class ActorCriticRecurrentConfig(ActorCriticConfig):
    """An actor and a critic that each look at the observations through a memory of their own."""

    builds: ClassVar[str] = "rsl_rl.modules.actor_critic_recurrent:ActorCriticRecurrent"

    rnn_type: str = "lstm"
    """Kind of memory: lstm or gru."""
    rnn_hidden_size: int = 256
    """Size of the memory's state in each layer."""
    rnn_num_layers: int = 1
    """Layers of the memory."""

    def __post_init__(self):
        super().__post_init__()
        require(self.rnn_type in ("lstm", "gru"), f"rnn_type='{self.rnn_type}'; allowed: lstm, gru")
        for name in ("rnn_hidden_size", "rnn_num_layers"):
            require(getattr(self, name) > 0, f"{name}={getattr(self, name)}: give a positive whole number")


@dataclass(frozen=True)
class SymmetricActorCriticRecurrentConfig(SymmetricActorCriticConfig, ActorCriticRecurrentConfig):
    """Memories and networks that treat left and right alike by construction."""

    builds: ClassVar[str] = "rsl_rl.modules.symmetric_recurrent:SymmetricActorCriticRecurrent"

    def __post_init__(self):
        super().__post_init__()
        require(
            self.rnn_hidden_size % 2 == 0,
            f"rnn_hidden_size={self.rnn_hidden_size}: symmetric memories have two halves, so give an even number",
        )
