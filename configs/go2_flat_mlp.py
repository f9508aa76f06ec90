"""go2_flat with an MLP instead of the symmetric network, with and without the symmetry extension, for comparison."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Tuple

from rsl_rl.config.extensions import ExtensionConfig, SymmetryConfig
from rsl_rl.config.learn import RunnerConfig
from rsl_rl.config.policy import ActorCriticConfig

from .go2_flat import Go2Flat


@dataclass(frozen=True)
class Go2FlatMlp(Go2Flat):
    """Unitree Go2 on flat ground, with an MLP without symmetry."""

    task: str = "go2_flat_mlp"
    policy: ActorCriticConfig = ActorCriticConfig(  # type: ignore[assignment]  # another type of network
        actor_hidden_dims=Go2Flat.policy.actor_hidden_dims, critic_hidden_dims=Go2Flat.policy.critic_hidden_dims
    )
    runner: RunnerConfig = replace(Go2Flat.runner, max_iterations=400, experiment_name="go2_flat_mlp")


@dataclass(frozen=True)
class Go2FlatMlpAugmented(Go2FlatMlp):
    """The same with the mirror image of each sample in every mini-batch."""

    task: str = "go2_flat_mlp_augmented"
    extensions: Tuple[ExtensionConfig, ...] = (SymmetryConfig(),)
    runner: RunnerConfig = replace(Go2FlatMlp.runner, experiment_name="go2_flat_mlp_augmented")


@dataclass(frozen=True)
class Go2FlatMlpMirrorLoss(Go2FlatMlp):
    """The same with a loss on the difference between the action and its mirror image."""

    task: str = "go2_flat_mlp_mirror_loss"
    extensions: Tuple[ExtensionConfig, ...] = (
        SymmetryConfig(use_data_augmentation=False, use_mirror_loss=True, mirror_loss_coeff=1.0),
    )
    runner: RunnerConfig = replace(Go2FlatMlp.runner, experiment_name="go2_flat_mlp_mirror_loss")
