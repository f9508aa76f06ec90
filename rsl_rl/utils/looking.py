"""What can be known of numbers without waiting: a CPU's memory is looked at, a GPU is never asked."""

from __future__ import annotations

import numpy as np
from torch import Tensor


def surely_none(mask: Tensor) -> bool:
    """Tell whether a mask is known to be false everywhere."""
    return mask.device.type == "cpu" and np.count_nonzero(mask.numpy()) == 0


def surely_within(x: Tensor, limit: float) -> bool:
    """Tell whether all of x is known to be finite and no larger than a limit."""
    if x.device.type != "cpu":
        return False
    low, high = (extreme.numpy() for extreme in x.aminmax())
    return -limit <= float(low) and float(high) <= limit  # NaN is neither
