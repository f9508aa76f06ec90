"""Returns and advantages of a rollout."""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor

from rsl_rl.distributed import SINGLE_PROCESS, Collective


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


def normalize(
    advantages: Tensor, mask: Tensor, collective: Collective = SINGLE_PROCESS, out: Optional[Tensor] = None
) -> Tensor:
    """Return advantages with zero mean and unit standard deviation over the unmasked samples of all ranks together.

    ``mask`` is 1, or 0 for a masked sample, whose advantage becomes 0; both have the same shape. The result is written
    into ``out`` if it is given.
    """
    total, count = collective.sum(torch.stack((torch.dot(advantages.flatten(), mask.flatten()), mask.sum())))
    centered = torch.sub(advantages, total / count.clamp(min=1), out=out).mul_(mask)
    std = collective.norm(torch.linalg.vector_norm(centered)) / (count - 1).clamp(min=1).sqrt()
    return centered.div_(std + 1e-8)


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
