"""Returns and advantages of a rollout, as functions of tensors."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


def gae(rewards: Tensor, values: Tensor, last_values: Tensor, dones: Tensor, gamma: float, lam: float) -> Tensor:
    """Return generalised advantage estimates [T, N, ...] (Schulman et al. 2016, https://arxiv.org/abs/1506.02438).

    rewards, values and dones are [T, N, ...]; last_values [N, ...] are those of the observation after the rollout. A
    step that is done takes nothing from its successor; what a time limit cut off must already be in its reward
    (``bootstrap_timeouts``).
    """
    not_done = torch.logical_not(dones, out=torch.empty_like(values))
    next_values = torch.cat((values[1:], last_values.unsqueeze(0)))
    advantages = (rewards - values).addcmul_(not_done, next_values, value=gamma)  # one-step errors, summed in place
    steps, decays = advantages.unbind(), not_done.mul_(gamma * lam).unbind()
    for t in range(len(steps) - 2, -1, -1):
        steps[t].addcmul_(decays[t], steps[t + 1])
    return advantages


def bootstrap_timeouts(rewards: Tensor, final_values: Tensor, time_outs: Tensor, dones: Tensor, gamma: float) -> Tensor:
    """Add to rewards [N, ...] the discounted value that a time limit cut off; the other arguments have the same shape.

    ``final_values`` is V of the last observation of the finished episode, or V(s_t) where nobody kept that observation.
    A time-out counts only where the episode is done: environments are known to hand over the flags of an earlier step.
    """
    return torch.where(torch.logical_and(time_outs, dones), rewards + gamma * final_values, rewards)


class NStep(NamedTuple):
    """What each step sees of the n steps from it on."""

    rewards: Tensor  # [T, ..., n]; 0 beyond the end of the data or of the episode
    ends: Tensor  # [T, ...] index of the last step seen


def n_step_rewards(rewards: Tensor, dones: Tensor, n: int) -> NStep:
    """Collect for each step of rewards and dones [T, ...] the rewards of the n steps from it on, within its episode."""
    num_steps = len(rewards)
    ahead = torch.arange(num_steps, device=rewards.device).unsqueeze(1) + torch.arange(n, device=rewards.device)
    inside = ahead < num_steps  # [T, n]
    windows, ended = (x[ahead.clamp(max=num_steps - 1)].movedim(1, -1) for x in (rewards, dones.bool()))
    inside = inside.view(num_steps, *(1,) * (rewards.dim() - 1), n).expand_as(windows)
    done_before = torch.zeros_like(inside)
    done_before[..., 1:] = ended[..., :-1].cumsum(dim=-1) > 0
    seen = inside & ~done_before
    first = torch.arange(num_steps, device=rewards.device).view(-1, *(1,) * (rewards.dim() - 1))
    return NStep(torch.where(seen, windows, torch.zeros_like(windows)), first + seen.sum(dim=-1) - 1)
