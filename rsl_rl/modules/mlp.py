"""Multi-layer perceptrons."""

from __future__ import annotations

import copy
from typing import List, Optional, Sequence, Tuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from rsl_rl.config.policy import ACTIVATIONS
from rsl_rl.modules.dense import IN_PLACE, dense_stack

_MODULES = {
    "elu": nn.ELU,
    "selu": nn.SELU,
    "relu": nn.ReLU,
    "lrelu": nn.LeakyReLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "silu": nn.SiLU,
    "gelu": nn.GELU,
}


def get_activation(name: str) -> nn.Module:
    """Return a fresh non-linearity by its name, such as ``"elu"``."""
    if name not in _MODULES:
        raise ValueError(f"unknown activation '{name}'; allowed: {', '.join(ACTIVATIONS)}")
    return _MODULES[name]()


class MLP(nn.Sequential):
    """Linear layers with an activation between them: what nn.Sequential makes of the same modules, in fewer passes.

    Where gradients are wanted it computes in ``learning_dtype``, if that is set, and returns its input's type.
    """

    learning_dtype: Optional[torch.dtype] = None

    def forward(self, input: Tensor) -> Tensor:
        layers = list(self)
        if len(layers) % 2 == 0 or not all(hasattr(layer, "weight_and_bias") for layer in layers[::2]):
            return super().forward(input)  # somebody has cut the stack, or put other layers into it
        weights, biases = zip(*(cast(Linear, linear).weight_and_bias() for linear in layers[::2]))
        x = input
        if self.learning_dtype is not None and torch.is_grad_enabled():
            x, *cast_parameters = (tensor.to(self.learning_dtype) for tensor in (input, *weights, *biases))
            weights, biases = cast_parameters[: len(weights)], cast_parameters[len(weights) :]
        activation = IN_PLACE.get(type(layers[1])) if len(layers) > 1 else None
        if activation is not None:
            return dense_stack(x, weights, biases, activation).to(input.dtype)
        for i, (weight, bias) in enumerate(zip(weights, biases)):
            x = functional.linear(x if i == 0 else layers[2 * i - 1](x), weight, bias)
        return x.to(input.dtype)

    def plain(self) -> nn.Sequential:
        """Return a copy of torch's own kind, which exporters understand."""
        return nn.Sequential(*copy.deepcopy(self))


class Linear(nn.Linear):
    """A linear layer of an :class:`MLP`."""

    def weight_and_bias(self) -> Tuple[Tensor, Tensor]:
        """Return the weight [outputs, inputs] and bias [outputs] in use."""
        return self.weight, self.bias


def mlp(num_inputs: int, hidden_dims: Sequence[int], num_outputs: int, activation: str) -> MLP:
    """Stack linear layers with the activation between them; the last layer is linear."""
    layers: List[nn.Module] = []
    for units in hidden_dims:
        layers += [Linear(num_inputs, units), get_activation(activation)]
        num_inputs = units
    return MLP(*layers, Linear(num_inputs, num_outputs))
