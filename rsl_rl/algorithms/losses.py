"""The terms of PPO's loss, sample by sample, and its step-size rule, as functions of tensors."""

from __future__ import annotations

from typing import Tuple

import torch
from torch import Tensor


def surrogate_loss(log_prob: Tensor, old_log_prob: Tensor, advantages: Tensor, clip_param: float) -> Tensor:
    """Return the clipped surrogate (Schulman et al. 2017, eq. 7) of samples of one shape, to be minimised."""
    ratio = torch.exp(log_prob - old_log_prob)
    clipped = ratio.clamp(1.0 - clip_param, 1.0 + clip_param)
    return torch.max(-advantages * ratio, -advantages * clipped)


def value_loss(values: Tensor, returns: Tensor) -> Tensor:
    """Return the squared error of the values."""
    return (values - returns).square()


def clipped_value_loss(values: Tensor, old_values: Tensor, returns: Tensor, clip_param: float) -> Tensor:
    """Return the larger squared error of the value and of the value held within ``clip_param`` of the old one."""
    clipped = old_values + (values - old_values).clamp(-clip_param, clip_param)
    return torch.max((values - returns).square(), (clipped - returns).square())


def adapt_learning_rate(
    learning_rate: Tensor, kl: Tensor, desired_kl: float, bounds: Tuple[float, float] = (1e-5, 1e-2)
) -> Tensor:
    """Divide the step size by 1.5 where the KL exceeds twice the target, multiply it where the KL is below half of it.

    Scalars in, scalar out, on their device: nothing waits for the numbers.
    """
    too_far = (kl > 2 * desired_kl).to(learning_rate.dtype)
    too_near = torch.logical_and(kl < desired_kl / 2, kl > 0).to(learning_rate.dtype)
    return (learning_rate * 1.5 ** (too_near - too_far)).clamp(*bounds)
