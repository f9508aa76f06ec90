"""Left-right mirror images of vectors, and layers that commute with them: f(mirror(x)) = mirror(f(x)) for every x.

The free weights of such a layer are averaged with their mirror image whenever they are used, which costs a pass over
the weights and none over the samples.
"""

from __future__ import annotations

from typing import List, Sequence, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rsl_rl.config.policy import MirrorTuple
from rsl_rl.modules.memory import LayerWeights, Memory
from rsl_rl.modules.mlp import MLP, get_activation


def mirror(x: Tensor, index: Tensor, sign: Tensor) -> Tensor:
    """Return the mirror image x[..., index] * sign of x [..., size]; that of the mirror image is x."""
    return x.index_select(-1, index) * sign


def average_with_image(
    weight: Tensor, input_index: Tensor, input_sign: Tensor, output_index: Tensor, output_sign: Tensor
) -> Tensor:
    """Return the average of a linear map [outputs, inputs] and its mirror image, which maps mirrored inputs to mirrored
    outputs."""
    image = mirror(mirror(weight.t(), output_index, output_sign).t(), input_index, input_sign)
    return 0.5 * (weight + image)


def register_mirror(module: nn.Module, name: str, mirror_tuple: MirrorTuple) -> None:
    """Give a module the buffers ``<name>_index`` and ``<name>_sign``."""
    index, sign = mirror_tuple
    module.register_buffer(f"{name}_index", torch.tensor(index, dtype=torch.long))
    module.register_buffer(f"{name}_sign", torch.tensor(sign, dtype=torch.float32))


def swapped_halves(units: int) -> MirrorTuple:
    """Return the mirror of hidden units whose first half is the image of the second.

    This is the regular representation of the reflection group (Ordonez-Apraez et al. 2023,
    https://arxiv.org/abs/2302.10433; for quadrupeds Su et al. 2024, https://arxiv.org/abs/2403.17320).
    """
    half = units // 2
    return tuple(range(half, units)) + tuple(range(half)), (1.0,) * units


def joined(*mirrors: MirrorTuple) -> MirrorTuple:
    """Return the mirror of vectors that are concatenated."""
    index: list = []
    sign: list = []
    for part_index, part_sign in mirrors:
        index += [len(sign) + i for i in part_index]
        sign += part_sign
    return tuple(index), tuple(sign)


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
