"""Checks of tensors on a CPU, to skip work. On a GPU they return False or None, to avoid a host synchronisation."""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor


def none_on_cpu(mask: Tensor) -> bool:
    """Return whether a mask is on a CPU and false everywhere."""
    # bool(mask.any()) counts as a host synchronisation, torch.equal does not
    return mask.device.type == "cpu" and torch.equal(mask, torch.zeros_like(mask))


def all_within_on_cpu(x: Tensor, limit: float) -> bool:
    """Return whether x is on a CPU, finite, and nowhere larger than a limit."""
    if x.device.type != "cpu":
        return False
    extremes, most = torch.stack(x.aminmax()), min(limit, torch.finfo(x.dtype).max)
    return torch.equal(extremes, extremes.clamp(-most, most))  # NaN equals nothing


def all_between_on_cpu(x: Tensor, low: Tensor, high: Tensor) -> bool:
    """Return whether x [N, D] is on a CPU, not NaN, and nowhere outside low and high [D]."""
    return x.device.type == "cpu" and torch.equal(x.float(), x.float().clamp(low, high))


def rows_on_cpu(mask: Tensor) -> Optional[Tensor]:
    """Return the indices of the rows that a mask [N] on a CPU marks; None on another device."""
    return mask.nonzero().squeeze(1) if mask.device.type == "cpu" else None
