"""Multi-layer perceptrons."""

from __future__ import annotations

from typing import Sequence

from torch import nn

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
}


def get_activation(name: str) -> nn.Module:
    """Return a fresh non-linearity by its name, such as ``"elu"``."""
    if name not in _MODULES:
        raise ValueError(f"unknown activation '{name}'; allowed: {', '.join(ACTIVATIONS)}")
    return _MODULES[name]()


def mlp(num_inputs: int, hidden_dims: Sequence[int], num_outputs: int, activation: str) -> nn.Sequential:
    """Stack linear layers with the activation between them; the last layer is linear."""
    layers = []
    for units in hidden_dims:
        layers += [nn.Linear(num_inputs, units), get_activation(activation)]
        num_inputs = units
    return nn.Sequential(*layers, nn.Linear(num_inputs, num_outputs))
