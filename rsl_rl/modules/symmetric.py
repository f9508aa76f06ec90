"""A policy that treats left and right alike by construction."""

from __future__ import annotations

from typing import Any, List, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rsl_rl.config.policy import MirrorTuple, SymmetricActorCriticConfig
from rsl_rl.modules.actor_critic import ActorCritic
from rsl_rl.modules.mlp import get_activation


class SymmetricLinear(nn.Linear):
    """A linear layer f with f(mirror(x)) = mirror(f(x)) for every x.

    A mirror is a pair (index, sign): mirror(x) = x[..., index] * sign, and twice is the identity. The free weights are
    averaged with their mirror image whenever they are used, which costs a pass over the weights and none over the
    samples.
    """

    def __init__(self, input_mirror: MirrorTuple, output_mirror: MirrorTuple):
        super().__init__(len(input_mirror[0]), len(output_mirror[0]))
        self.input_index: Tensor  # [inputs]
        self.input_sign: Tensor
        self.output_index: Tensor  # [outputs]
        self.output_sign: Tensor
        for name, (index, sign) in (("input", input_mirror), ("output", output_mirror)):
            self.register_buffer(f"{name}_index", torch.tensor(index, dtype=torch.long))
            self.register_buffer(f"{name}_sign", torch.tensor(sign, dtype=torch.float32))
        with torch.no_grad():
            self.weight.mul_(2**0.5)  # the average of two draws has half their variance

    def forward(self, x: Tensor) -> Tensor:
        mirrored = self.weight.index_select(0, self.output_index).index_select(1, self.input_index)
        mirrored = mirrored * self.output_sign.unsqueeze(1) * self.input_sign
        bias = self.bias + self.bias.index_select(0, self.output_index) * self.output_sign
        return F.linear(x, 0.5 * (self.weight + mirrored), 0.5 * bias)


def symmetric_mlp(
    input_mirror: MirrorTuple, hidden_dims: Sequence[int], output_mirror: MirrorTuple, activation: str
) -> nn.Sequential:
    """Stack symmetric layers; in the mirror image, the first half of each hidden layer's units trades places with the
    second.

    This is the regular representation of the reflection group (Ordonez-Apraez et al. 2023,
    https://arxiv.org/abs/2302.10433; for quadrupeds Su et al. 2024, https://arxiv.org/abs/2403.17320).
    """
    layers: List[nn.Module] = []
    for units in hidden_dims:
        half = units // 2
        hidden_mirror = (tuple(range(half, units)) + tuple(range(half)), (1.0,) * units)
        layers += [SymmetricLinear(input_mirror, hidden_mirror), get_activation(activation)]
        input_mirror = hidden_mirror
    return nn.Sequential(*layers, SymmetricLinear(input_mirror, output_mirror))


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
        self.actor = symmetric_mlp(cfg.actor_mirror, cfg.actor_hidden_dims, cfg.action_mirror, cfg.activation)
        value_mirror = ((0,), (1.0,))
        self.action_mirror_index: Tensor  # [A]
        self.register_buffer("action_mirror_index", torch.tensor(cfg.action_mirror[0]), persistent=False)
        self.critic = symmetric_mlp(cfg.critic_mirror, cfg.critic_hidden_dims, value_mirror, cfg.activation)

    def noise_std(self) -> Tensor:
        std = super().noise_std()
        return 0.5 * (std + std[self.action_mirror_index])
