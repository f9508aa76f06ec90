"""What can be known of numbers without waiting: a CPU's memory is looked at, a GPU is never asked."""

from __future__ import annotations

import torch
from torch import Tensor


def surely_none(mask: Tensor) -> bool:
    """Tell whether a mask is known to be false everywhere."""
    # ``any`` would have to be asked for its number, which counts as waiting
    return mask.device.type == "cpu" and torch.equal(mask, torch.zeros_like(mask))


def surely_within(x: Tensor, limit: float) -> bool:
    """Tell whether all of x is known to be finite and no larger than a limit."""
    if x.device.type != "cpu":
        return False
    extremes, most = torch.stack(x.aminmax()), min(limit, torch.finfo(x.dtype).max)
    return torch.equal(extremes, extremes.clamp(-most, most))  # NaN equals nothing
