"""Distributions over actions for PPO, in closed form and without validation at run time.

A distribution is described by named parameter tensors, such as ``action_mean`` and ``action_std``; a rollout stores
these. ``distribution_families`` makes distributions from the outputs of a network.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Dict, Mapping

import torch
from torch import Tensor
from torch.nn import functional as F

_FLOOR_SHARPNESS = 2.0
"""Sharpness of the bend of ``smooth_floor``, in units of 1/floor."""

Parameters = Mapping[str, Tensor]
"""Parameters of a distribution by name, each [..., size]."""


class Distribution(ABC):
    """A distribution over actions [..., A] for each sample of a batch."""

    @property
    @abstractmethod
    def parameters(self) -> Dict[str, Tensor]:
        """Parameters by name."""

    @property
    @abstractmethod
    def mode(self) -> Tensor:
        """Action [..., A] to take without exploration."""

    @abstractmethod
    def sample(self) -> Tensor:
        """Draw actions [..., A], without gradient."""

    @abstractmethod
    def log_prob(self, actions: Tensor) -> Tensor:
        """Return the log density [..., 1] of actions [..., A]."""

    @abstractmethod
    def entropy(self) -> Tensor:
        """Return the entropy [..., 1] in nats; leading dimensions that do not matter may be left out."""

    @abstractmethod
    def kl_from(self, old: Parameters) -> Tensor:
        """Return KL(old || self) [..., 1] in nats."""

    @property
    @abstractmethod
    def std(self) -> Tensor:
        """Standard deviation of the action, which can be broadcast to [..., A]."""

    def detach(self) -> Distribution:
        """Return the same distribution without its graph."""
        return type(self)(**{name: value.detach() for name, value in self.parameters.items()})


class DiagonalGaussian(Distribution):
    """Independent normal distributions of A action components."""

    def __init__(self, action_mean: Tensor, action_std: Tensor):
        self.mean = action_mean  # [..., A]
        self._std = action_std  # [..., A], or [A] where it is the same for all samples

    @property
    def parameters(self) -> Dict[str, Tensor]:
        return {"action_mean": self.mean, "action_std": self._std}

    @property
    def mode(self) -> Tensor:
        return self.mean

    @property
    def std(self) -> Tensor:
        return self._std

    def sample(self) -> Tensor:
        return torch.addcmul(self.mean, torch.randn_like(self.mean), self._std).detach()

    def log_prob(self, actions: Tensor) -> Tensor:
        distance = actions - self.mean
        if torch.is_grad_enabled():
            return self.log_prob_from_square((distance / self._std).square())
        return self.log_prob_from_square(distance.div_(self._std).square_())

    def log_prob_from_square(self, squared: Tensor) -> Tensor:
        """Return the log density [..., 1] from ((actions - mean) / std)^2 [..., A]."""
        constant = 0.5 * squared.shape[-1] * math.log(2 * math.pi)
        normalizer = self._std.log().sum(dim=-1, keepdim=True) + constant
        return -0.5 * squared.sum(dim=-1, keepdim=True) - normalizer

    def entropy(self) -> Tensor:
        return (self._std.log() + 0.5 * math.log(2 * math.pi * math.e)).sum(dim=-1, keepdim=True)

    def kl_from(self, old: Parameters) -> Tensor:
        return gaussian_kl(old["action_mean"], old["action_std"], self.mean, self._std).unsqueeze(-1)


class Beta(Distribution):
    """Independent beta distributions of A action components on [low, high].

    ``alpha`` and ``beta`` are [..., A] and at least 1, so that every density has one peak.
    """

    low, high = -1.0, 1.0

    def __init__(self, alpha: Tensor, beta: Tensor):
        self.alpha, self.beta = alpha, beta

    @property
    def parameters(self) -> Dict[str, Tensor]:
        return {"alpha": self.alpha, "beta": self.beta}

    @property
    def mode(self) -> Tensor:
        """Mean of the distribution: unlike the peak, it exists for alpha = beta = 1 too."""
        return self.low + (self.high - self.low) * self.alpha / (self.alpha + self.beta)

    @property
    def std(self) -> Tensor:
        total = self.alpha + self.beta
        return (self.high - self.low) * (self.alpha * self.beta / (total.square() * (total + 1.0))).sqrt()

    def sample(self) -> Tensor:
        with torch.no_grad():
            unit = torch._sample_dirichlet(torch.stack((self.alpha, self.beta), dim=-1))[..., 0]
            return self.low + (self.high - self.low) * unit.clamp(1e-6, 1.0 - 1e-6)

    def log_prob(self, actions: Tensor) -> Tensor:
        unit = ((actions - self.low) / (self.high - self.low)).clamp(1e-6, 1.0 - 1e-6)
        density = (self.alpha - 1.0) * unit.log() + (self.beta - 1.0) * torch.log1p(-unit)
        return (density - _log_beta(self.alpha, self.beta) - math.log(self.high - self.low)).sum(dim=-1, keepdim=True)

    def entropy(self) -> Tensor:
        total = self.alpha + self.beta
        parts = (self.alpha - 1.0) * self.alpha.digamma() + (self.beta - 1.0) * self.beta.digamma()
        entropy = _log_beta(self.alpha, self.beta) - parts + (total - 2.0) * total.digamma()
        return (entropy + math.log(self.high - self.low)).sum(dim=-1, keepdim=True)

    def kl_from(self, old: Parameters) -> Tensor:
        a, b = old["alpha"], old["beta"]
        kl = _log_beta(self.alpha, self.beta) - _log_beta(a, b)
        kl = kl + (a - self.alpha) * a.digamma() + (b - self.beta) * b.digamma()
        return (kl + (self.alpha - a + self.beta - b) * (a + b).digamma()).sum(dim=-1, keepdim=True)


class Categorical(Distribution):
    """One choice of K; actions are indices [..., 1] int64."""

    def __init__(self, log_probs: Tensor):
        self.log_probs = log_probs  # [..., K], normalised

    @property
    def parameters(self) -> Dict[str, Tensor]:
        return {"log_probs": self.log_probs}

    @property
    def mode(self) -> Tensor:
        return self.log_probs.argmax(dim=-1, keepdim=True)

    @property
    def std(self) -> Tensor:
        """Standard deviation of the indicator of each choice [..., K]."""
        probs = self.log_probs.exp()
        return (probs * (1.0 - probs)).sqrt()

    def sample(self) -> Tensor:
        with torch.no_grad():  # the largest of log-probabilities with Gumbel noise is a draw
            uniform = torch.rand_like(self.log_probs).clamp(min=torch.finfo(self.log_probs.dtype).tiny)
            return (self.log_probs - (-uniform.log()).log()).argmax(dim=-1, keepdim=True)

    def log_prob(self, actions: Tensor) -> Tensor:
        return self.log_probs.gather(-1, actions.long())

    def entropy(self) -> Tensor:
        return -(self.log_probs.exp() * self.log_probs).sum(dim=-1, keepdim=True)

    def kl_from(self, old: Parameters) -> Tensor:
        before = old["log_probs"]
        return (before.exp() * (before - self.log_probs)).sum(dim=-1, keepdim=True)


def gaussian_kl(old_mean: Tensor, old_std: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Return KL(old || new) of diagonal Gaussians [..., A], summed over the components: [...] nats."""
    ratio = old_std / std
    shift = (old_mean - mean) / std
    return 0.5 * torch.addcmul(shift.square(), ratio, ratio).sub(1.0).sum(dim=-1) - ratio.log().sum(dim=-1)


def smooth_floor(x: Tensor, floor: float) -> Tensor:
    """Return x where it is well above ``floor``, bent smoothly so that the result always exceeds ``floor``.

    A clamp has no gradient below its bound, so a parameter below it would never change again.
    """
    return floor + F.softplus(x - floor, beta=_FLOOR_SHARPNESS / floor)


def _log_beta(a: Tensor, b: Tensor) -> Tensor:
    return a.lgamma() + b.lgamma() - (a + b).lgamma()
