"""Multi-layer perceptrons."""

from __future__ import annotations

import copy
from typing import List, Optional, Protocol, Sequence, Tuple

import torch
from torch import Tensor, nn

from rsl_rl.config.policy import ACTIVATIONS

_MODULES = {
    "elu": nn.ELU,
    "selu": nn.SELU,
    "relu": nn.ReLU,
    "lrelu": nn.LeakyReLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "silu": nn.SiLU,
    "gelu": nn.GELU,
    "softplus": nn.Softplus,
    "mish": nn.Mish,
    "celu": nn.CELU,
    "identity": nn.Identity,
}


def get_activation(name: str) -> nn.Module:
    """Return a fresh non-linearity by its name, such as ``"elu"``."""
    if name not in _MODULES:
        raise ValueError(f"unknown activation '{name}'; allowed: {', '.join(ACTIVATIONS)}")
    return _MODULES[name]()


class MLPKernel(Protocol):
    """Another implementation of an MLP's forward pass, see ``rsl_rl.acceleration``."""

    def __call__(self, mlp: MLP, x: Tensor) -> Tensor:
        """Return the outputs of ``mlp`` for x [..., D]."""
        ...

    def cache_weights(self, mlp: MLP) -> None:
        """Prepare the current weights for calls without gradients."""
        ...

    def clear_cache(self) -> None:
        """Stop using cached weights."""
        ...


class MLP(nn.Sequential):
    """Linear layers with an activation between them; the last layer is linear."""

    kernel: Optional[MLPKernel] = None
    """Faster implementation of the same function; None for that of nn.Sequential."""

    def forward(self, input: Tensor) -> Tensor:
        kernel = None if torch.jit.is_tracing() else self.kernel  # kernels cannot be traced
        return super().forward(input) if kernel is None else kernel(self, input)

    def cache_weights(self) -> None:
        """Use the current weights for calls without gradients until :meth:`clear_cache`."""
        if self.kernel is not None:
            self.kernel.cache_weights(self)

    def clear_cache(self) -> None:
        """Stop using cached weights."""
        if self.kernel is not None:
            self.kernel.clear_cache()

    def plain(self) -> nn.Sequential:
        """Return a copy as an nn.Sequential, for exporters."""
        return nn.Sequential(*copy.deepcopy(self))

    def __prepare_scriptable__(self) -> nn.Sequential:
        """Return what ``torch.jit.script`` compiles."""
        return self.plain()


class Linear(nn.Linear):
    """A linear layer of an :class:`MLP`."""

    def weight_and_bias(self) -> Tuple[Tensor, Tensor]:
        """Return the effective weight [outputs, inputs] and bias [outputs]."""
        return self.weight, self.bias


def mlp(num_inputs: int, hidden_dims: Sequence[int], num_outputs: int, activation: str) -> MLP:
    """Return an MLP with plain linear layers."""
    layers: List[nn.Module] = []
    for units in hidden_dims:
        layers += [Linear(num_inputs, units), get_activation(activation)]
        num_inputs = units
    return MLP(*layers, Linear(num_inputs, num_outputs))
