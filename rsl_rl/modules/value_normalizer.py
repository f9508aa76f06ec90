"""Normalisation of the critic's target."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from rsl_rl.distributed import SINGLE_PROCESS, Collective
from rsl_rl.modules.mlp import MLP
from rsl_rl.modules.normalizer import RunningNorm


class NoValueNormalizer(nn.Module):
    """The critic's outputs are values."""

    def forward(self, outputs: Tensor) -> Tensor:
        return outputs

    def scaled(self, x: Tensor) -> Tensor:
        """Return values, or differences of values, in units of the critic's outputs."""
        return x

    def update(self, returns: Tensor, sample_mask: Tensor, collective: Collective = SINGLE_PROCESS) -> None:
        """Merge the returns of the rollouts [T, N, 1] of all ranks into the statistics."""


class ValueNormalizer(NoValueNormalizer):
    """The critic's outputs are values of zero mean and unit variance, by running statistics of the returns.

    An update of the statistics rescales the critic's last layer so that its values stay the same (PopArt, van Hasselt
    et al. 2016, https://arxiv.org/abs/1602.07714).
    """

    def __init__(self, critic: MLP):
        super().__init__()
        self._last_layer = (critic[-1],)  # a tuple, so that it is not registered twice
        self.statistics = RunningNorm(1, eps=1e-5)

    def forward(self, outputs: Tensor) -> Tensor:
        return outputs * self._std() + self.statistics.mean

    def scaled(self, x: Tensor) -> Tensor:
        return x / self._std()

    @torch.no_grad()
    def update(self, returns: Tensor, sample_mask: Tensor, collective: Collective = SINGLE_PROCESS) -> None:
        old_mean, old_std = self.statistics.mean.clone(), self._std()
        self.statistics.update(returns, sample_mask, collective)
        std = self._std()
        last = cast(nn.Linear, self._last_layer[0])
        last.weight.mul_(old_std / std)
        last.bias.mul_(old_std / std).add_((old_mean - self.statistics.mean) / std)

    def _std(self) -> Tensor:
        return self.statistics.var.sqrt() + self.statistics.eps
