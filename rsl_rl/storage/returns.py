"""Returns and advantages of a rollout, as functions of tensors."""

from __future__ import annotations

import torch
from torch import Tensor


def gae(rewards: Tensor, values: Tensor, last_values: Tensor, dones: Tensor, gamma: float, lam: float) -> Tensor:
    """Return generalised advantage estimates [T, N, ...] (Schulman et al. 2016, https://arxiv.org/abs/1506.02438).

    rewards, values and dones are [T, N, ...]; last_values [N, ...] are those of the observation after the rollout. A
    step that is done takes nothing from its successor; what a time limit cut off must already be in its reward
    (``bootstrap_timeouts``).
    """
    going_on = 1.0 - dones.to(values.dtype)
    next_values = torch.cat((values[1:], last_values.unsqueeze(0)))
    advantages = torch.addcmul(
        rewards - values, going_on, next_values, value=gamma
    )  # one-step errors, summed below in place
    decay = going_on * (gamma * lam)
    for t in range(len(rewards) - 2, -1, -1):
        advantages[t].addcmul_(decay[t], advantages[t + 1])
    return advantages


def bootstrap_timeouts(rewards: Tensor, final_values: Tensor, time_outs: Tensor, dones: Tensor, gamma: float) -> Tensor:
    """Add to rewards [N, ...] the discounted value that a time limit cut off; the other arguments have the same shape.

    ``final_values`` is V of the last observation of the finished episode, or V(s_t) where nobody kept that observation.
    A time-out counts only where the episode is done: environments are known to hand over the flags of an earlier step.
    """
    return torch.where(torch.logical_and(time_outs, dones), rewards + gamma * final_values, rewards)
