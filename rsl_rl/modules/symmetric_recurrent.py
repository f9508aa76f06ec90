"""A policy with memory that treats left and right alike by construction."""

from __future__ import annotations

from typing import Any, Mapping, Tuple

import torch
from torch import Tensor

from rsl_rl.config.policy import MirrorTuple, SymmetricActorCriticRecurrentConfig
from rsl_rl.modules.actor_critic_recurrent import ActorCriticRecurrent
from rsl_rl.modules.memory import Memory
from rsl_rl.modules.recurrence import LayerWeights
from rsl_rl.modules.symmetric import (
    SymmetricActorCritic,
    average_with_image,
    mirror,
    register_mirror,
    swapped_halves,
)


class SymmetricMemory(Memory):
    """A memory whose state and output of a mirrored past are the mirror image of those of the past.

    In the image, the first half of the units of each layer trades places with the second; gates follow their units.
    """

    def __init__(self, input_mirror: MirrorTuple, type: str = "lstm", num_layers: int = 1, hidden_size: int = 256):
        super().__init__(len(input_mirror[0]), type, num_layers, hidden_size)
        self.input_index: Tensor  # [inputs]
        self.input_sign: Tensor
        self.unit_index: Tensor  # [H]
        self.unit_sign: Tensor
        self.gate_index: Tensor  # [G*H]
        self.gate_sign: Tensor
        units = swapped_halves(hidden_size)
        num_gates = len(self.rnn.weight_hh_l0) // hidden_size
        gates = tuple(gate * hidden_size + unit for gate in range(num_gates) for unit in units[0])
        for name, image in (("input", input_mirror), ("unit", units), ("gate", (gates, (1.0,) * len(gates)))):
            register_mirror(self, name, image)
        with torch.no_grad():
            for parameter in self.rnn.parameters():
                parameter.mul_(2**0.5)  # the average of two draws has half their variance

    def layer_weights(self, layer: int) -> LayerWeights:
        weights = super().layer_weights(layer)
        gates = self.gate_index, self.gate_sign
        units = self.unit_index, self.unit_sign
        inputs = (self.input_index, self.input_sign) if layer == 0 else units
        return LayerWeights(
            average_with_image(weights.input, *inputs, *gates),
            average_with_image(weights.hidden, *units, *gates),
            0.5 * (weights.input_bias + mirror(weights.input_bias, *gates)),
            0.5 * (weights.hidden_bias + mirror(weights.hidden_bias, *gates)),
        )


class SymmetricActorCriticRecurrent(ActorCriticRecurrent, SymmetricActorCritic):
    """An :class:`ActorCriticRecurrent` that acts on a mirrored robot with a mirrored past as the mirror image of how it
    acts on the robot, and values both alike.

    ``settings`` are the fields of :class:`SymmetricActorCriticRecurrentConfig`; the runner asks the environment for the
    mirrors.
    """

    cfg: SymmetricActorCriticRecurrentConfig

    @staticmethod
    def _config(settings: Mapping[str, Any]) -> SymmetricActorCriticRecurrentConfig:
        return SymmetricActorCriticRecurrentConfig(**settings)

    def _make_networks(self, num_actor_features: int, num_critic_features: int, num_actions: int) -> None:
        SymmetricActorCritic._make_networks(self, num_actor_features, num_critic_features, num_actions)
        cfg = self.cfg
        self.memory_a = SymmetricMemory(cfg.actor_mirror, cfg.rnn_type, cfg.rnn_num_layers, cfg.rnn_hidden_size)
        self.memory_c = SymmetricMemory(cfg.critic_mirror, cfg.rnn_type, cfg.rnn_num_layers, cfg.rnn_hidden_size)

    def _feature_mirrors(self) -> Tuple[MirrorTuple, MirrorTuple]:
        """Return the mirrors of what actor and critic are given: the memories' outputs."""
        outputs = swapped_halves(self.cfg.rnn_hidden_size)
        return outputs, outputs
