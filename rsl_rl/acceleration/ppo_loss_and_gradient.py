"""PPO's loss of a Gaussian policy with its gradient in closed form.

The loss has few inputs, the distribution over actions and the value, so its gradient is written by hand: autograd over
the same terms takes three times the operations, and for small networks they cost as much as the networks.
"""

from __future__ import annotations

import math
from typing import Mapping, NamedTuple, Optional, Tuple, cast

import torch
from torch import Tensor

from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.modules.distributions import DiagonalGaussian, Distribution
from rsl_rl.storage.mini_batches import MiniBatch


class LossGradients(NamedTuple):
    """Gradients of surrogate + value_loss_coef * value - entropy_coef * entropy."""

    mean: Tensor  # [..., A]
    std: Tensor  # of the shape of the distribution's
    values: Tensor  # [..., 1]


class PPOLossAndGradient:
    """Add the gradient of PPO's loss to the parameters, as ``algorithms.ppo.ppo_backward`` does by autograd."""

    def __init__(self, compile: bool = False):
        self._function = torch.compile(ppo_loss_and_gradient) if compile else ppo_loss_and_gradient

    def __call__(
        self,
        distribution: Distribution,
        values: Optional[Tensor],
        batch: MiniBatch,
        weights: Tensor,
        cfg: PPOConfig,
        additional: Mapping[str, Tensor],
    ) -> Tensor:
        """Return the sums [4] over samples of surrogate, value loss, entropy and KL, without graph.

        Each sample counts with its weight [..., 1]; ``additional`` losses are scalars.
        """
        assert values is not None
        mean, std = distribution.parameters.values()
        policy = cast(DiagonalGaussian, distribution.detach())
        terms, gradients = self._function(policy, values.detach(), batch, weights, cfg)
        learned = [(x, gradient) for x, gradient in zip((mean, std, values), gradients) if x.requires_grad]
        learned += [(loss, torch.ones_like(loss)) for loss in additional.values()]
        torch.autograd.backward([x for x, _ in learned], [gradient for _, gradient in learned])
        return terms


def surrogate_loss_and_gradient(
    log_prob: Tensor, old_log_prob: Tensor, advantages: Tensor, clip_param: float
) -> Tuple[Tensor, Tensor]:
    """Return the clipped surrogate (Schulman et al. 2017, eq. 7) of each sample, to be minimised, and its gradient with
    respect to log_prob."""
    ratio = torch.exp(log_prob - old_log_prob)
    free = -advantages * ratio
    clipped = -advantages * ratio.clamp(1.0 - clip_param, 1.0 + clip_param)
    return torch.maximum(free, clipped), free * (free >= clipped)


def value_loss_and_gradient(values: Tensor, returns: Tensor) -> Tuple[Tensor, Tensor]:
    """Return the squared error of the values, and its gradient."""
    error = values - returns
    return error.square(), 2.0 * error


def clipped_value_loss_and_gradient(
    values: Tensor, old_values: Tensor, returns: Tensor, clip_param: float
) -> Tuple[Tensor, Tensor]:
    """Return the larger squared error of the value and of the value clipped to within ``clip_param`` of the old one,
    and its gradient with respect to values."""
    loss, gradient = value_loss_and_gradient(values, returns)
    change = values - old_values
    clipped = change.clamp(-clip_param, clip_param)
    clipped_loss = (old_values + clipped - returns).square()
    follows = torch.logical_or(loss >= clipped_loss, change == clipped)  # an unclipped value has its own error
    return torch.maximum(loss, clipped_loss), gradient * follows


def ppo_loss_and_gradient(
    policy: DiagonalGaussian, values: Tensor, batch: MiniBatch, weights: Tensor, cfg: PPOConfig
) -> Tuple[Tensor, LossGradients]:
    """Return the sums [4] of surrogate, value loss, entropy and KL, and the gradient of the loss.

    policy is the new distribution over actions [..., A], values [..., 1] are the new ones, all without gradient. Each
    sample counts with its weight [..., 1].
    """
    columns = batch.columns
    mean, std = policy.mean, policy.std
    z = (columns["actions"] - mean) / std
    squared = z.square()
    normalizer = std.log().sum(dim=-1, keepdim=True) + 0.5 * squared.shape[-1] * math.log(2 * math.pi)
    log_prob = -0.5 * squared.sum(dim=-1, keepdim=True) - normalizer
    old_log_prob, advantages = columns["actions_log_prob"], columns["advantages"]
    surrogate, d_log_prob = surrogate_loss_and_gradient(log_prob, old_log_prob, advantages, cfg.clip_param)
    old_values, returns = columns["values"], columns["returns"]
    if cfg.use_clipped_value_loss:
        value, d_values = clipped_value_loss_and_gradient(values, old_values, returns, cfg.clip_param)
    else:
        value, d_values = value_loss_and_gradient(values, returns)
    kl = policy.kl_from(columns)
    entropy = policy.entropy().expand_as(log_prob)
    samples = torch.cat((surrogate, value, entropy, kl), dim=-1)
    terms = samples.flatten(0, -2).t().mv(weights.flatten())

    # With z = (a - mean) / std: d log_prob / d mean = z / std, d log_prob / d std = (z^2 - 1) / std, and
    # d entropy / d std = 1 / std.
    d_log_prob = d_log_prob * weights
    d_log_std = squared.sub_(1.0).mul_(d_log_prob).sub_(cfg.entropy_coef * weights)
    gradients = LossGradients(
        mean=z.div_(std).mul_(d_log_prob),
        std=d_log_std.sum_to_size(std.shape) / std,
        values=d_values * (cfg.value_loss_coef * weights),
    )
    return terms, gradients
