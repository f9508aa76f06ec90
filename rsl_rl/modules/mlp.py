"""Multi-layer perceptrons."""

from __future__ import annotations

import copy
import math
from typing import List, Optional, Sequence, Tuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from rsl_rl.config.policy import ACTIVATIONS
from rsl_rl.modules.dense import IN_PLACE, dense_stack

_CACHED_NUMBERS = 1 << 19
"""Results that stay in a CPU's cache from one layer to the next."""

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
        rows = input.reshape(-1, input.shape[-1])
        if torch.is_grad_enabled():
            dtype = self.learning_dtype or input.dtype
            x, *parameters = (tensor.to(dtype) for tensor in (rows, *weights, *biases))
            y = self._run(x, parameters[: len(weights)], parameters[len(weights) :]).to(input.dtype)
        else:
            results = [self._run(block, weights, biases) for block in _blocks(rows, weights)]
            y = results[0] if len(results) == 1 else torch.cat(results)
        return y.view(*input.shape[:-1], y.shape[-1])

    def _run(self, x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> Tensor:
        activations = list(self)[1::2]
        in_place = IN_PLACE.get(type(activations[0])) if activations else None
        if in_place is not None:
            return dense_stack(x, weights, biases, in_place)
        for weight, bias, activation in zip(weights, biases, activations):
            x = activation(functional.linear(x, weight, bias))
        return functional.linear(x, weights[-1], biases[-1])

    def plain(self) -> nn.Sequential:
        """Return a copy of torch's own kind, which exporters understand."""
        return nn.Sequential(*copy.deepcopy(self))


def _blocks(rows: Tensor, weights: Sequence[Tensor]) -> Sequence[Tensor]:
    """Cut rows so that the results of the widest layer stay in a CPU's cache; a GPU takes all at once."""
    at_once = max(1, _CACHED_NUMBERS // max(len(weight) for weight in weights))
    if rows.device.type != "cpu" or len(rows) <= at_once:
        return (rows,)
    return rows.tensor_split(math.ceil(len(rows) / at_once))


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
