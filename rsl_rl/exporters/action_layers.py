"""Layers that compute the action without exploration from an actor's outputs, for exporters."""

from __future__ import annotations

from typing import List

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rsl_rl.modules.distributions import (
    Beta,
    BetaFamily,
    CategoricalFamily,
    DistributionFamily,
    StateDependentGaussianFamily,
)


class Mean(nn.Module):
    """The first half [..., A] of a mean and a standard deviation [..., 2A]."""

    def forward(self, x: Tensor) -> Tensor:
        return x.chunk(2, dim=-1)[0]


class BetaMean(nn.Module):
    """The mean [..., A] of beta distributions with outputs [..., 2A]."""

    def __init__(self) -> None:
        super().__init__()
        self.low, self.width = Beta.low, Beta.high - Beta.low

    def forward(self, x: Tensor) -> Tensor:
        alpha, beta = (1.0 + F.softplus(x)).chunk(2, dim=-1)
        return self.low + self.width * alpha / (alpha + beta)


class Choice(nn.Module):
    """The index [..., 1] of the largest of K outputs."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.argmax(x, dim=-1, keepdim=True)


def action_layers(family: DistributionFamily) -> List[nn.Module]:
    """Return the layers after an actor of a distribution family; none for a Gaussian whose mean are the outputs."""
    if isinstance(family, StateDependentGaussianFamily):
        return [Mean()]
    if isinstance(family, BetaFamily):
        return [BetaMean()]
    return [Choice()] if isinstance(family, CategoricalFamily) else []
