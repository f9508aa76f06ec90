"""Uniform random numbers for many environments at once."""

from __future__ import annotations

from typing import Sequence, Tuple

import torch
from torch import Tensor

_NUM_LEVELS = 2**16


class Uniform:
    """Draw numbers [N, D] with bounds for each column.

    Each number is one of 65,536 equally spaced values, so that one random 64-bit integer gives four numbers.
    """

    def __init__(self, num_envs: int, bounds: Sequence[Tuple[float, float]], generator: torch.Generator):
        low, high = torch.tensor(bounds, dtype=torch.float64).unbind(dim=1)
        self._middle = ((low + high) / 2).float().to(generator.device)
        self._spacing = ((high - low) / _NUM_LEVELS).float().to(generator.device)
        count = num_envs * len(bounds)
        self._bits = torch.zeros((count + 3) // 4, dtype=torch.int64, device=generator.device)
        self._levels = self._bits.view(torch.int16)[:count].view(num_envs, len(bounds))  # from -32,768 to 32,767
        self._generator = generator

    def __call__(self) -> Tensor:
        """Return new numbers, [N, D] float32; the lower bound is included, the upper one is not, except by rounding."""
        self._bits.random_(-(2**63), None, generator=self._generator)
        return self._levels.float().mul_(self._spacing).add_(self._middle)
