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


def n_step_returns(rewards: Tensor, values: Tensor, last_values: Tensor, dones: Tensor, gamma: float, n: int) -> Tensor:
    """Return the discounted n-step returns [T, N, ...] of each step (Sutton and Barto 2018, eq. 7.1).

    The shapes are those of :func:`gae`. The return of a step is the discounted sum of the rewards of this step and the
    n - 1 after it, and the discounted value of the observation after these. It ends without a value at a step that is
    done; at the end of the rollout it has fewer rewards, and the value ``last_values``. For time-outs, call
    ``bootstrap_timeouts`` before. n < 1 is a ValueError.
    """
    if n < 1:
        raise ValueError(f"n={n}: give a whole number of at least 1")
    windows = n_step_rewards(rewards, dones, n)
    powers = gamma ** torch.arange(n + 1, dtype=rewards.dtype, device=rewards.device)
    num_rewards = windows.ends - _first_steps(rewards) + 1
    next_values = torch.cat((values[1:], last_values.unsqueeze(0))).gather(0, windows.ends)
    not_done = dones.gather(0, windows.ends).logical_not()
    return (windows.rewards * powers[:-1]).sum(dim=-1) + not_done * powers[num_rewards] * next_values


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
    return NStep(torch.where(valid, windows, torch.zeros_like(windows)), _first_steps(rewards) + valid.sum(dim=-1) - 1)


def _first_steps(x: Tensor) -> Tensor:
    """Return the index of each step of x [T, ...] as [T, 1, ...]."""
    return torch.arange(len(x), device=x.device).view(-1, *(1,) * (x.dim() - 1))


def group_advantages(returns: Tensor, mask: Tensor, group_size: int, scale: bool = True) -> Tensor:
    """Return the advantages of returns [T, N] over their groups (Shao et al. 2024, https://arxiv.org/abs/2402.03300).

    A group is ``group_size`` consecutive environments, k * group_size to (k + 1) * group_size - 1. The advantage of a
    step is its return less the mean over its group in the same step; with ``scale`` it is divided by the standard
    deviation there. Steps whose ``mask`` [T, N] is 0 do not count and have the advantage 0, and so has a step that is
    alone in its group.
    """
    grouped, weights = (x.unflatten(1, (-1, group_size)) for x in (returns, mask))  # [T, N / group_size, group_size]
    count = weights.sum(dim=2, keepdim=True).clamp(min=1.0)
    centered = (grouped - (grouped * weights).sum(dim=2, keepdim=True) / count) * weights
    if scale:
        centered = centered / ((centered.square().sum(dim=2, keepdim=True) / count).sqrt() + 1e-6)
    return centered.flatten(1)


def learnable_steps(dones: Tensor, valid: Tensor, only_first: bool) -> Tensor:
    """Return which steps [T, N] bool have a known return: those whose episode, from there on, has no step that is not
    ``valid`` [T, N].

    With ``only_first`` these are only steps of the first episode of each environment, up to its first done [T, N].
    """
    zeros = torch.zeros_like(dones, dtype=torch.float32)
    num_invalid_ahead = gae((~valid).float(), zeros, zeros[0], dones, 1.0, 1.0)
    known = num_invalid_ahead == 0
    return known & (dones.cumsum(dim=0) - dones.long() == 0) if only_first else known
