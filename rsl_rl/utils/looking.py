"""What can be known of numbers without waiting: a CPU's memory is looked at, a GPU is never asked."""

from __future__ import annotations

import torch
from torch import Tensor


def surely_none(mask: Tensor) -> bool:
    """Tell whether a mask is known to be false everywhere."""
    return mask.device.type == "cpu" and torch.equal(mask, torch.zeros_like(mask))


def surely_within(x: Tensor, limit: float) -> bool:
    """Tell whether all of x is known to be finite and no larger than a limit."""
    if x.device.type != "cpu":
        return False
    extremes = torch.stack(x.aminmax())
    return torch.equal(extremes, extremes.clamp(-limit, limit))  # NaN equals nothing
