"""A policy that treats left and right alike by construction."""

from __future__ import annotations

from typing import Any, List, Mapping, Sequence, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rsl_rl.config.policy import MirrorTuple, SymmetricActorCriticConfig
from rsl_rl.modules.actor_critic import ActorCritic
from rsl_rl.modules.mlp import MLP, get_activation


def mirror(x: Tensor, index: Tensor, sign: Tensor) -> Tensor:
    """Return the mirror image x[..., index] * sign of vectors x [..., size]; of that again, x."""
    return x.index_select(-1, index) * sign


def average_with_image(
    weight: Tensor, input_index: Tensor, input_sign: Tensor, output_index: Tensor, output_sign: Tensor
) -> Tensor:
    """Average a linear map [outputs, inputs] with its mirror image, so that it maps mirrored inputs to mirrored
    outputs."""
    image = mirror(mirror(weight.t(), output_index, output_sign).t(), input_index, input_sign)
    return 0.5 * (weight + image)


def register_mirror(module: nn.Module, name: str, mirror_tuple: MirrorTuple) -> None:
    """Give a module the buffers ``<name>_index`` and ``<name>_sign``."""
    index, sign = mirror_tuple
    module.register_buffer(f"{name}_index", torch.tensor(index, dtype=torch.long))
    module.register_buffer(f"{name}_sign", torch.tensor(sign, dtype=torch.float32))


def swapped_halves(units: int) -> MirrorTuple:
    """Return the mirror of a hidden layer: the first half of its units trades places with the second.

    This is the regular representation of the reflection group (Ordonez-Apraez et al. 2023,
    https://arxiv.org/abs/2302.10433; for quadrupeds Su et al. 2024, https://arxiv.org/abs/2403.17320).
    """
    half = units // 2
    return tuple(range(half, units)) + tuple(range(half)), (1.0,) * units


class SymmetricLinear(nn.Linear):
    """A linear layer f with f(mirror(x)) = mirror(f(x)) for every x.

    The free weights are averaged with their mirror image whenever they are used, which costs a pass over the weights
    and none over the samples.
    """

    def __init__(self, input_mirror: MirrorTuple, output_mirror: MirrorTuple):
        super().__init__(len(input_mirror[0]), len(output_mirror[0]))
        self.input_index: Tensor  # [inputs]
        self.input_sign: Tensor
        self.output_index: Tensor  # [outputs]
        self.output_sign: Tensor
        register_mirror(self, "input", input_mirror)
        register_mirror(self, "output", output_mirror)
        with torch.no_grad():
            self.weight.mul_(2**0.5)  # the average of two draws has half their variance

    def forward(self, x: Tensor) -> Tensor:
        weight, bias = self.weight_and_bias()
        return F.linear(x, weight, bias)

    def weight_and_bias(self) -> Tuple[Tensor, Tensor]:
        """Return the averaged weight and bias."""
        weight = average_with_image(self.weight, self.input_index, self.input_sign, self.output_index, self.output_sign)
        return weight, 0.5 * (self.bias + mirror(self.bias, self.output_index, self.output_sign))


def symmetric_mlp(
    input_mirror: MirrorTuple, hidden_dims: Sequence[int], output_mirror: MirrorTuple, activation: str
) -> MLP:
    """Stack symmetric layers with the activation between them; the last layer is linear."""
    layers: List[nn.Module] = []
    for units in hidden_dims:
        layers += [SymmetricLinear(input_mirror, swapped_halves(units)), get_activation(activation)]
        input_mirror = swapped_halves(units)
    return MLP(*layers, SymmetricLinear(input_mirror, output_mirror))


class SymmetricActorCritic(ActorCritic):
    """An :class:`ActorCritic` that acts on a mirrored robot as the mirror image of how it acts on the robot, and values
    both alike.

    ``settings`` are the fields of :class:`SymmetricActorCriticConfig`; the runner asks the environment for the mirrors.
    The noise of the actions is learned for each joint and its mirror partner together.
    """

    cfg: SymmetricActorCriticConfig

    @staticmethod
    def _config(settings: Mapping[str, Any]) -> SymmetricActorCriticConfig:
        return SymmetricActorCriticConfig(**settings)

    def _make_networks(self, num_actor_features: int, num_critic_features: int, num_actions: int) -> None:
        cfg = self.cfg
        sizes = {"actor_mirror": num_actor_features, "critic_mirror": num_critic_features, "action_mirror": num_actions}
        for name, size in sizes.items():
            if len(getattr(cfg, name)[0]) != size:
                raise ValueError(
                    f"{name} has {len(getattr(cfg, name)[0])} entries and the vector {size}; the environment's "
                    "mirrors() must describe every observation group that is read, and the actions"
                )
        self.action_mirror_index: Tensor  # [A]
        self.register_buffer("action_mirror_index", torch.tensor(cfg.action_mirror[0]), persistent=False)
        actor_features, critic_features = self._feature_mirrors()
        value = ((0,), (1.0,))
        self.actor = symmetric_mlp(actor_features, cfg.actor_hidden_dims, cfg.action_mirror, cfg.activation)
        self.critic = symmetric_mlp(critic_features, cfg.critic_hidden_dims, value, cfg.activation)

    def _feature_mirrors(self) -> Tuple[MirrorTuple, MirrorTuple]:
        """Return the mirrors of what actor and critic are given: the observations."""
        return self.cfg.actor_mirror, self.cfg.critic_mirror

    def noise_std(self) -> Tensor:
        std = super().noise_std()
        return 0.5 * (std + std[self.action_mirror_index])
