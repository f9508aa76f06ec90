"""Returns and advantages of a rollout."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


def gae(rewards: Tensor, values: Tensor, last_values: Tensor, dones: Tensor, gamma: float, lam: float) -> Tensor:
    """Return generalised advantage estimates [T, N, ...] (Schulman et al. 2016, https://arxiv.org/abs/1506.02438).

    rewards, values and dones are [T, N, ...]; last_values [N, ...] are those of the observation after the rollout. A
    step that is done does not bootstrap; for time-outs, call ``bootstrap_timeouts`` before.
    """
    not_done = torch.logical_not(dones, out=torch.empty_like(values))
    next_values = torch.cat((values[1:], last_values.unsqueeze(0)))
    advantages = (rewards - values).addcmul_(not_done, next_values, value=gamma)  # one-step errors, summed in place
    steps, decays = advantages.unbind(), not_done.mul_(gamma * lam).unbind()
    for t in range(len(steps) - 2, -1, -1):
        steps[t].addcmul_(decays[t], steps[t + 1])
    return advantages


def bootstrap_timeouts(rewards: Tensor, final_values: Tensor, time_outs: Tensor, dones: Tensor, gamma: float) -> Tensor:
    """Add the discounted value of the final state to the rewards [N, ...] of time-outs; all arguments have this shape.

    ``final_values`` is V of the final observation of the episode, or V(s_t) if that observation is not available. A
    time-out is ignored if the episode is not done, because some environments return the flags of an earlier step.
    """
    return torch.where(torch.logical_and(time_outs, dones), rewards + gamma * final_values, rewards)


class NStep(NamedTuple):
    """Windows of n steps, one for each step as the first."""

    rewards: Tensor  # [T, ..., n]; 0 after the end of the data or of the episode
    ends: Tensor  # [T, ...] index of the last step of the window


def n_step_rewards(rewards: Tensor, dones: Tensor, n: int) -> NStep:
    """Return the rewards of the n steps that start at each step of rewards and dones [T, ...], within its episode."""
    num_steps = len(rewards)
    ahead = torch.arange(num_steps, device=rewards.device).unsqueeze(1) + torch.arange(n, device=rewards.device)
    inside = ahead < num_steps  # [T, n]
    windows, ended = (x[ahead.clamp(max=num_steps - 1)].movedim(1, -1) for x in (rewards, dones.bool()))
    inside = inside.view(num_steps, *(1,) * (rewards.dim() - 1), n).expand_as(windows)
    done_before = torch.zeros_like(inside)
    done_before[..., 1:] = ended[..., :-1].cumsum(dim=-1) > 0
    valid = inside & ~done_before
    first = torch.arange(num_steps, device=rewards.device).view(-1, *(1,) * (rewards.dim() - 1))
    return NStep(torch.where(valid, windows, torch.zeros_like(windows)), first + valid.sum(dim=-1) - 1)
