"""PPO's loss by autograd, and transforms of its mini-batches."""

from __future__ import annotations

from typing import Callable, List, Mapping, NamedTuple

import torch
from torch import Tensor

from rsl_rl.config.algorithm import PPOConfig, SurrogateConfig
from rsl_rl.distributed import SINGLE_PROCESS, Collective
from rsl_rl.modules.actor_critic import ActorCritic
from rsl_rl.modules.distributions import Distribution
from rsl_rl.storage.mini_batch import MiniBatch

BatchTransform = Callable[[MiniBatch], MiniBatch]
"""A function from a mini-batch to another one of the same samples."""


class LossTerms(NamedTuple):
    """Weighted sums over samples, scalars."""

    surrogate: Tensor  # clipped surrogate, to be minimised
    value: Tensor  # squared error of the values
    entropy: Tensor  # of the policy [nats]
    kl: Tensor  # KL(old || new) of the policy [nats]


class PolicyTerms(NamedTuple):
    """The terms of LossTerms that depend on the policy alone."""

    surrogate: Tensor
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
    return torch.maximum(value_loss(values, returns), value_loss(clipped, returns))


def policy_terms(distribution: Distribution, batch: MiniBatch, weights: Tensor, cfg: SurrogateConfig) -> PolicyTerms:
    """Return the terms of the loss of a mini-batch for the new ``distribution`` over actions [..., A].

    Each sample counts with its weight [..., 1]. Entropy and KL are those of the collected samples alone.
    """
    log_prob = distribution.log_prob(batch.actions)
    surrogate = surrogate_loss(log_prob, batch.old_actions_log_prob, batch.advantages, cfg.clip_param)
    kl = distribution.kl_from(batch.columns)
    collected = batch.original(weights)
    collected = collected * (weights.sum() / collected.sum().clamp(min=torch.finfo(weights.dtype).tiny))
    entropy = batch.original(distribution.entropy().expand_as(log_prob))
    return PolicyTerms((surrogate * weights).sum(), (entropy * collected).sum(), (batch.original(kl) * collected).sum())


def ppo_loss(
    distribution: Distribution, values: Tensor, batch: MiniBatch, weights: Tensor, cfg: PPOConfig
) -> LossTerms:
    """Return the terms of PPO's loss of a mini-batch: those of :func:`policy_terms`, and that of the new ``values``
    [..., 1]."""
    if cfg.use_clipped_value_loss:
        value = clipped_value_loss(values, batch.values, batch.returns, cfg.clip_param)
    else:
        value = value_loss(values, batch.returns)
    surrogate, entropy, kl = policy_terms(distribution, batch, weights, cfg)
    return LossTerms(surrogate, (value * weights).sum(), entropy, kl)


class PPOLoss:
    """Add the gradient of PPO's loss and of additional losses to the parameters."""

    def __call__(
        self,
        distribution: Distribution,
        values: Tensor,
        batch: MiniBatch,
        weights: Tensor,
        cfg: PPOConfig,
        additional: Mapping[str, Tensor],
    ) -> Tensor:
        """Return the sums [4] of the LossTerms, without graph."""
        terms = ppo_loss(distribution, values, batch, weights, cfg)
        loss = terms.surrogate + cfg.value_loss_coef * terms.value - cfg.entropy_coef * terms.entropy
        for term in additional.values():
            loss = loss + term
        loss.backward()
        return torch.stack(terms).detach()


def batch_transforms(
    cfg: PPOConfig, policy: ActorCritic, collective: Collective = SINGLE_PROCESS
) -> List[BatchTransform]:
    """Return what a config and a policy change in each mini-batch before the loss."""
    normalizing: List[BatchTransform] = []
    if cfg.normalize_advantage_per_mini_batch:
        normalizing = [lambda batch: normalize_advantages(batch, collective)]
    return normalizing + value_scaling(policy)


def value_scaling(policy: ActorCritic) -> List[BatchTransform]:
    """Return what scales the values and returns of a mini-batch to the critic's outputs, where these are normalised."""
    if not policy.cfg.value_normalization:
        return []
    scaled = policy.value_normalizer.scaled
    return [lambda batch: batch.with_columns(values=scaled(batch.values), returns=scaled(batch.returns))]


def normalize_advantages(batch: MiniBatch, collective: Collective = SINGLE_PROCESS) -> MiniBatch:
    """Scale the advantages of a mini-batch to zero mean and unit deviation over the unmasked samples of all ranks."""
    mask, advantages = batch.sample_mask, batch.advantages
    total, count = collective.sum(torch.stack(((advantages * mask).sum(), mask.sum())))
    centered = (advantages - total / count.clamp(min=1)) * mask
    std = collective.norm(torch.linalg.vector_norm(centered)) / (count - 1).clamp(min=1).sqrt()
    return batch.with_columns(advantages=centered / (std + 1e-8))
