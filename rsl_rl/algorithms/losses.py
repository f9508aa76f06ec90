"""Losses and the adaptive learning rate, as functions of tensors."""

from __future__ import annotations

from typing import NamedTuple, Tuple

import torch
from torch import Tensor
from torch.nn import functional as F

from rsl_rl.config.algorithm import PPOConfig, SurrogateConfig
from rsl_rl.modules.distributions import Distribution
from rsl_rl.storage.mini_batches import MiniBatch


class PolicyTerms(NamedTuple):
    """Weighted sums over samples, scalars, that depend on the policy alone."""

    surrogate: Tensor  # clipped surrogate, to be minimised
    entropy: Tensor  # of the policy [nats]
    kl: Tensor  # KL(old || new) of the policy [nats]


class PPOTerms(NamedTuple):
    """Weighted sums over samples, scalars."""

    surrogate: Tensor
    value: Tensor  # squared error of the values
    entropy: Tensor
    kl: Tensor


def surrogate_loss(log_prob: Tensor, old_log_prob: Tensor, advantages: Tensor, clip_param: float) -> Tensor:
    """Return the clipped surrogate (Schulman et al. 2017, eq. 7) of each sample, to be minimised."""
    ratio = torch.exp(log_prob - old_log_prob)
    return torch.maximum(-advantages * ratio, -advantages * ratio.clamp(1.0 - clip_param, 1.0 + clip_param))


def value_loss(values: Tensor, returns: Tensor) -> Tensor:
    """Return the squared error of each value."""
    return (values - returns).square()


def clipped_value_loss(values: Tensor, old_values: Tensor, returns: Tensor, clip_param: float) -> Tensor:
    """Return the larger squared error of the value and of the value clipped to within ``clip_param`` of the old one."""
    clipped = old_values + (values - old_values).clamp(-clip_param, clip_param)
    return torch.maximum((values - returns).square(), (clipped - returns).square())


def policy_terms(distribution: Distribution, batch: MiniBatch, weights: Tensor, cfg: SurrogateConfig) -> PolicyTerms:
    """Return the terms of the loss of a mini-batch for the new ``distribution`` over actions [..., A].

    Each sample counts with its weight [..., 1]. Entropy and KL are those of the collected samples alone.
    """
    columns = batch.columns
    log_prob = distribution.log_prob(columns["actions"])
    surrogate = surrogate_loss(log_prob, columns["actions_log_prob"], columns["advantages"], cfg.clip_param)
    surrogate = (surrogate * weights).sum()
    kl, entropy = distribution.kl_from(columns), distribution.entropy().expand_as(log_prob)
    if batch.num_original is not None:  # samples were appended
        total, weights, kl, entropy = (
            weights.sum(),
            batch.original(weights),
            batch.original(kl),
            batch.original(entropy),
        )
        weights = weights * (total / weights.sum().clamp(min=torch.finfo(weights.dtype).tiny))
    return PolicyTerms(surrogate, (entropy * weights).sum(), (kl * weights).sum())


def ppo_terms(
    distribution: Distribution, values: Tensor, batch: MiniBatch, weights: Tensor, cfg: PPOConfig
) -> PPOTerms:
    """Return the terms of PPO's loss of a mini-batch: those of :func:`policy_terms`, and that of the new ``values``
    [..., 1]."""
    old_values, returns = batch.columns["values"], batch.columns["returns"]
    if cfg.use_clipped_value_loss:
        value = clipped_value_loss(values, old_values, returns, cfg.clip_param)
    else:
        value = value_loss(values, returns)
    surrogate, entropy, kl = policy_terms(distribution, batch, weights, cfg)
    return PPOTerms(surrogate, (value * weights).sum(), entropy, kl)


def behavior_loss(actions: Tensor, teacher_actions: Tensor, loss_type: str = "mse") -> Tensor:
    """Return the difference [..., 1] of actions [..., A], the mean over their components of the square ('mse') or of
    Huber's loss ('huber')."""
    function = F.huber_loss if loss_type == "huber" else F.mse_loss
    return function(actions, teacher_actions, reduction="none").mean(dim=-1, keepdim=True)


def adapt_learning_rate(
    learning_rate: Tensor, kl: Tensor, desired_kl: float, bounds: Tuple[float, float] = (1e-5, 1e-2)
) -> Tensor:
    """Divide the learning rate by 1.5 where the KL exceeds twice the target, multiply it where the KL is below half of
    it.

    Scalars in, scalar out, on their device.
    """
    too_far = (kl > 2 * desired_kl).to(learning_rate.dtype)
    too_near = torch.logical_and(kl < desired_kl / 2, kl > 0).to(learning_rate.dtype)
    return (learning_rate * 1.5 ** (too_near - too_far)).clamp(*bounds)
