"""Layers that commute with the left-right mirror by construction: f(mirror(x)) = mirror(f(x)) for every x.

The free weights are averaged with their mirror image whenever they are used, which costs a pass over the weights and
none over the samples.
"""

from __future__ import annotations

from typing import List, Sequence, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rsl_rl.config.policy import MirrorTuple
from rsl_rl.modules.memory import LayerWeights, Memory
from rsl_rl.modules.mirror import average_with_image, mirror, register_mirror, swapped_halves
from rsl_rl.modules.mlp import MLP, get_activation


class SymmetricLinear(nn.Linear):
    """A linear layer that maps mirrored inputs to mirrored outputs."""

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
    """Return an MLP of symmetric layers."""
    layers: List[nn.Module] = []
    for units in hidden_dims:
        layers += [SymmetricLinear(input_mirror, swapped_halves(units)), get_activation(activation)]
        input_mirror = swapped_halves(units)
    return MLP(*layers, SymmetricLinear(input_mirror, output_mirror))


class SymmetricMemory(Memory):
    """A memory whose state and output for mirrored observations are the mirror image of those for the observations.

    In the image, the first half of the units of each layer is swapped with the second; gates follow their units.
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
