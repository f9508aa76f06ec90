"""Diagonal Gaussians in closed form: what PPO needs of them and nothing that has to be validated at run time."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

_FLOOR_SHARPNESS = 2.0
"""Bend of the smooth floor, in units of 1/floor: above about eleven floors the input passes through unchanged."""


class DiagonalGaussian:
    """Independent normal distributions of A action components, with torch.distributions' names."""

    def __init__(self, mean: Tensor, stddev: Tensor):
        self.mean = mean  # [..., A]
        self.stddev = stddev  # [..., A], or [A] where it is the same everywhere

    def sample(self) -> Tensor:
        """Draw actions [..., A], without gradient."""
        return torch.addcmul(self.mean, torch.randn_like(self.mean), self.stddev).detach()

    def log_prob(self, actions: Tensor) -> Tensor:
        """Return the log density of each component [..., A]."""
        z = (actions - self.mean) / self.stddev
        return -0.5 * z.square() - self.stddev.log() - 0.5 * math.log(2 * math.pi)

    def joint_log_prob(self, squared_distance: Tensor) -> Tensor:
        """Return the log density [..., 1] of actions from ((actions - mean) / stddev)^2 [..., A]."""
        constant = 0.5 * squared_distance.shape[-1] * math.log(2 * math.pi)
        normalizer = self.stddev.log().sum(dim=-1, keepdim=True) + constant
        return -0.5 * squared_distance.sum(dim=-1, keepdim=True) - normalizer

    def entropy(self) -> Tensor:
        """Return the differential entropy of each component [..., A] in nats."""
        return self.stddev.log() + 0.5 * math.log(2 * math.pi * math.e)


def gaussian_kl(old_mean: Tensor, old_std: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Return KL(old || new) of diagonal Gaussians [..., A], summed over the components: [...] nats."""
    ratio = old_std / std
    shift = (old_mean - mean) / std
    return 0.5 * torch.addcmul(shift.square(), ratio, ratio).sub(1.0).sum(dim=-1) - ratio.log().sum(dim=-1)


def smooth_floor(x: Tensor, floor: float) -> Tensor:
    """Return x where it is well above ``floor``, bending smoothly so that the result always exceeds ``floor``.

    A clamp has no gradient below its bound, so a parameter that once fell under it could never come back.
    """
    return floor + F.softplus(x - floor, beta=_FLOOR_SHARPNESS / floor)
