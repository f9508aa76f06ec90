"""Running normalisation of observations, and of the critic's target."""

from __future__ import annotations

from typing import Optional, Tuple, cast

import torch
from torch import Tensor, nn

from rsl_rl.distributed import SINGLE_PROCESS, Collective


class RunningNorm(nn.Module):
    """Scale inputs [..., D] to zero mean and unit variance as seen so far.

    ``forward`` only reads the statistics; only ``update`` changes them. The learner calls it between an update and the
    next rollout, so that acting and learning use the same statistics and the first probability ratio of an update is
    exactly 1.

    A sample counts as at most ``MAX_INFLUENCE`` deviations away from the others, so that a single broken value cannot
    spoil the statistics.
    """

    MAX_INFLUENCE = 100.0
    """Distance, in standard deviations, to which samples are clipped before they enter the statistics."""
    BROKEN = 1e4
    """Distance, in standard deviations, beyond which a sample is a fault of its environment."""
    _GROUPS = 16

    def __init__(self, size: int, eps: float = 1e-2):
        super().__init__()
        self.eps = eps
        self.mean: Tensor  # [D]; annotated here because TorchScript does not support it in the class
        self.var: Tensor  # [D]
        self.count: Tensor  # [] samples seen
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("var", torch.ones(size))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) / (self.var.sqrt() + self.eps)

    @torch.jit.unused
    @torch.no_grad()
    def update(self, x: Tensor, sample_mask: Optional[Tensor] = None, collective: Collective = SINGLE_PROCESS) -> None:
        """Merge the batches [..., D] of all ranks into the statistics (Chan et al. 1979, the pairwise update).

        ``sample_mask`` [..., 1] is the weight of each sample; None for 1.
        """
        x = x.reshape(-1, x.shape[-1])
        if sample_mask is None:
            sample_mask = x.new_ones(len(x), 1)
        x = self._without_outliers(x, sample_mask.reshape(-1, 1))
        weights = sample_mask.reshape(1, -1)
        sums = collective.sum(torch.cat(((weights @ x).squeeze(0), weights.sum().reshape(1))))
        count = sums[-1]
        mean = sums[:-1] / count.clamp(min=1.0)
        var = collective.sum((weights @ (x - mean).square()).squeeze(0)) / count.clamp(min=1.0)
        total = self.count + count
        share = (count / total.clamp(min=1.0)).to(x.dtype)  # of the new batch in all samples
        delta = mean - self.mean
        self.var.copy_(torch.lerp(self.var, var, share) + delta.square() * share * (1 - share))
        self.mean.add_(delta * share)
        self.count.copy_(total)

    @torch.jit.unused
    def bounds(self) -> Tuple[Tensor, Tensor]:
        """Return the lowest and highest samples [D] that are no faults; without statistics there are no bounds."""
        distance = self.BROKEN * (self.var.sqrt() + self.eps)
        distance = torch.where(self.count > 0, distance, torch.full_like(distance, torch.inf))
        return self.mean - distance, self.mean + distance

    @torch.jit.unused
    def _without_outliers(self, x: Tensor, sample_mask: Tensor) -> Tensor:
        """Clip samples [B, D] to MAX_INFLUENCE deviations around the mean.

        The deviation is the larger one of the running statistics and of the batch. That of the batch is the median over
        groups of samples, so that outliers in a few of them have no influence on it.
        """
        groups, size = self._GROUPS, len(x) // self._GROUPS
        if size < 2:  # too few samples to say which ones are outliers
            return x
        grouped, mask = (y[: size * groups].view(size, groups, -1) for y in (x, sample_mask))
        counts = mask.sum(dim=0).clamp(min=1.0)
        center = ((grouped * mask).sum(dim=0) / counts).median(dim=0).values  # [D]
        spread = (((grouped - center).square() * mask).sum(dim=0) / counts).median(dim=0).values.sqrt()
        distance = self.MAX_INFLUENCE * (torch.maximum(spread, self.var.sqrt() * (self.count > 0)) + self.eps)
        low, high = torch.minimum(center, self.mean), torch.maximum(center, self.mean)
        return torch.minimum(torch.maximum(x, low - distance), high + distance)


class ValueNormalizer(nn.Module):
    """The critic's outputs are values of zero mean and unit variance, by running statistics of the returns.

    An update of the statistics rescales the critic's last layer so that its values stay the same (PopArt, van Hasselt
    et al. 2016, https://arxiv.org/abs/1602.07714).
    """

    def __init__(self, critic: nn.Sequential):
        super().__init__()
        self._last_layer = (critic[-1],)  # a tuple, so that it is not registered twice
        self.statistics = RunningNorm(1, eps=1e-5)

    def forward(self, outputs: Tensor) -> Tensor:
        return outputs * self._std() + self.statistics.mean

    def scaled(self, x: Tensor) -> Tensor:
        """Return values, or differences of values, in units of the critic's outputs."""
        return x / self._std()

    @torch.no_grad()
    def update(self, returns: Tensor, sample_mask: Tensor, collective: Collective = SINGLE_PROCESS) -> None:
        """Merge the returns of the rollouts [T, N, 1] of all ranks into the statistics."""
        old_mean, old_std = self.statistics.mean.clone(), self._std()
        self.statistics.update(returns, sample_mask, collective)
        std = self._std()
        last = cast(nn.Linear, self._last_layer[0])
        last.weight.mul_(old_std / std)
        last.bias.mul_(old_std / std).add_((old_mean - self.statistics.mean) / std)

    def _std(self) -> Tensor:
        return self.statistics.var.sqrt() + self.statistics.eps
