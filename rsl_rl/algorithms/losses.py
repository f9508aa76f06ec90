"""PPO's loss with its gradient in closed form, and its step-size rule.

The loss has few inputs, the distribution over actions and the value, so its gradient is written out: autograd over the
same terms takes three times the operations, and on small networks they cost as much as the networks.
"""

from __future__ import annotations

from typing import NamedTuple, Tuple

import torch
from torch import Tensor

from rsl_rl.modules.gaussian import DiagonalGaussian, gaussian_kl
from rsl_rl.storage.rollout_storage import MiniBatch


class LossTerms(NamedTuple):
    """Weighted sums over samples; scalars without gradient."""

    surrogate: Tensor  # clipped surrogate, to be minimised
    value: Tensor  # squared error of the values
    entropy: Tensor  # of the policy [nats]
    kl: Tensor  # KL(old || new) of the policy [nats]


class LossGradients(NamedTuple):
    """Gradients of surrogate + value_loss_coef * value - entropy_coef * entropy."""

    mean: Tensor  # [..., A]
    stddev: Tensor  # of the shape it came in
    values: Tensor  # [..., 1]


def surrogate_loss(
    log_prob: Tensor, old_log_prob: Tensor, advantages: Tensor, clip_param: float
) -> Tuple[Tensor, Tensor]:
    """Return the clipped surrogate (Schulman et al. 2017, eq. 7) of samples of one shape, to be minimised, and its
    gradient with respect to log_prob."""
    ratio = torch.exp(log_prob - old_log_prob)
    free = -advantages * ratio
    clipped = -advantages * ratio.clamp(1.0 - clip_param, 1.0 + clip_param)
    return torch.maximum(free, clipped), free * (free >= clipped)


def value_loss(values: Tensor, returns: Tensor) -> Tuple[Tensor, Tensor]:
    """Return the squared error of the values, and its gradient."""
    error = values - returns
    return error.square(), 2.0 * error


def clipped_value_loss(values: Tensor, old_values: Tensor, returns: Tensor, clip_param: float) -> Tuple[Tensor, Tensor]:
    """Return the larger squared error of the value and of the value held within ``clip_param`` of the old one, and its
    gradient with respect to values."""
    loss, gradient = value_loss(values, returns)
    change = values - old_values
    held = change.clamp(-clip_param, clip_param)
    held_loss = (old_values + held - returns).square()
    follows = torch.logical_or(loss >= held_loss, change == held)  # a value that is not held moves with its own error
    return torch.maximum(loss, held_loss), gradient * follows


def ppo_loss(
    policy: DiagonalGaussian,
    values: Tensor,
    batch: MiniBatch,
    weights: Tensor,
    clip_param: float,
    value_loss_coef: float,
    entropy_coef: float,
    use_clipped_value_loss: bool,
) -> Tuple[Tensor, LossGradients]:
    """Return the LossTerms of a mini-batch as one tensor [4], and the gradient of the loss.

    policy is the new distribution over actions [..., A], values [..., 1] are the new ones, all without gradient. Each
    sample counts with its weight [..., 1].
    """
    mean, stddev = policy.mean, policy.stddev
    z = (batch.actions - mean) / stddev
    squared = z.square()
    log_prob = policy.joint_log_prob(squared)
    surrogate, d_log_prob = surrogate_loss(log_prob, batch.old_actions_log_prob, batch.advantages, clip_param)
    if use_clipped_value_loss:
        value, d_values = clipped_value_loss(values, batch.values, batch.returns, clip_param)
    else:
        value, d_values = value_loss(values, batch.returns)
    kl = gaussian_kl(batch.old_mu, batch.old_sigma, mean, stddev).unsqueeze(-1)
    entropy = policy.entropy().sum(dim=-1, keepdim=True).expand_as(log_prob)
    columns = torch.cat((surrogate, value, entropy, kl), dim=-1)  # in the order of LossTerms
    terms = columns.flatten(0, -2).t().mv(weights.flatten())

    # With z = (a - mean) / stddev: d log_prob / d mean = z / stddev, d log_prob / d stddev = (z^2 - 1) / stddev, and
    # d entropy / d stddev = 1 / stddev.
    d_log_prob = d_log_prob * weights
    d_log_stddev = squared.sub_(1.0).mul_(d_log_prob).sub_(entropy_coef * weights)
    gradients = LossGradients(
        mean=z.div_(stddev).mul_(d_log_prob),
        stddev=d_log_stddev.sum_to_size(stddev.shape) / stddev,
        values=d_values * (value_loss_coef * weights),
    )
    return terms, gradients


def adapt_learning_rate(
    learning_rate: Tensor, kl: Tensor, desired_kl: float, bounds: Tuple[float, float] = (1e-5, 1e-2)
) -> Tensor:
    """Divide the step size by 1.5 where the KL exceeds twice the target, multiply it where the KL is below half of it.

    Scalars in, scalar out, on their device: nothing waits for the numbers.
    """
    too_far = (kl > 2 * desired_kl).to(learning_rate.dtype)
    too_near = torch.logical_and(kl < desired_kl / 2, kl > 0).to(learning_rate.dtype)
    return (learning_rate * 1.5 ** (too_near - too_far)).clamp(*bounds)
