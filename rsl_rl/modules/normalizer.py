"""Running normalisation of observations."""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor, nn


class RunningNorm(nn.Module):
    """Scale inputs [..., D] to zero mean and unit variance as seen so far.

    ``forward`` only reads the statistics; only ``update`` changes them. The learner calls it between an update and the
    next rollout, so that acting and learning use the same statistics and the first probability ratio of an update is
    exactly 1.
    """

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
    def update(self, x: Tensor, sample_mask: Optional[Tensor] = None) -> None:
        """Merge a batch [..., D] into the statistics (Chan et al. 1979, the pairwise update).

        ``sample_mask`` [..., 1] is the weight of each sample; None for 1.
        """
        x = x.reshape(-1, x.shape[-1])
        if sample_mask is None:
            sample_mask = x.new_ones(len(x), 1)
        weights = sample_mask.reshape(1, -1)
        count = weights.sum()
        mean = (weights @ x).squeeze(0) / count.clamp(min=1.0)
        var = (weights @ (x - mean).square()).squeeze(0) / count.clamp(min=1.0)
        total = self.count + count
        share = (count / total.clamp(min=1.0)).to(x.dtype)  # of the new batch in all samples
        delta = mean - self.mean
        self.var.copy_(torch.lerp(self.var, var, share) + delta.square() * share * (1 - share))
        self.mean.add_(delta * share)
        self.count.copy_(total)
