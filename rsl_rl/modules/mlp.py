"""Multi-layer perceptrons."""

from __future__ import annotations

import copy
from typing import List, Optional, Sequence, Tuple, cast

import torch
from torch import Tensor, nn

from rsl_rl.config.policy import ACTIVATIONS
from rsl_rl.modules.dense import FixedStack, dense_stack

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
    _held: Optional[FixedStack] = None

    def hold(self) -> None:
        """Without gradients, compute with the weights as they are now until ``release``; they are prepared once."""
        self._held = FixedStack(*self._parts()) if self._is_stack() else None

    def release(self) -> None:
        """Compute with the weights as they are at each call."""
        self._held = None

    def forward(self, input: Tensor) -> Tensor:
        learning = torch.is_grad_enabled()
        if self._held is not None and not learning:
            return self._held(input)
        if not self._is_stack():
            return super().forward(input)
        weights, biases, activations = self._parts()
        if not learning:
            return FixedStack(weights, biases, activations)(input)
        rows, dtype = input.reshape(-1, input.shape[-1]), self.learning_dtype or input.dtype
        if not rows.dtype == weights[0].dtype == dtype:
            rows, *parameters = (x.to(dtype) for x in (rows, *weights, *biases))
            weights, biases = parameters[: len(weights)], parameters[len(weights) :]
        y = dense_stack(rows, weights, biases, activations)
        return y.to(input.dtype).view(*input.shape[:-1], y.shape[-1])

    def _is_stack(self) -> bool:
        """Tell whether nobody has cut the stack, or put other layers into it."""
        layers = list(self)
        return len(layers) % 2 == 1 and all(hasattr(layer, "weight_and_bias") for layer in layers[::2])

    def _parts(self) -> Tuple[Sequence[Tensor], Sequence[Tensor], Sequence[nn.Module]]:
        """Return the weight and the bias of each layer, and the activations between them."""
        layers = list(self)
        weights, biases = zip(*(cast(Linear, linear).weight_and_bias() for linear in layers[::2]))
        return weights, biases, layers[1::2]

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
