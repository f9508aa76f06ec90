"""Split rollouts into chunks of equal length, for truncated backpropagation through time.

Letters: T steps of a rollout, N environments, K chunks of each environment, S steps of a chunk, burn-in included.
"""

from __future__ import annotations

from typing import NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from rsl_rl.config.algorithm import LAST_FN_TYPES


class ChunkPlan(NamedTuple):
    """Step of the rollout for each row of each chunk; tensors are [S, K]."""

    begins: Tuple[int, ...]  # [K] the first step of each chunk, whose recurrent state is stored
    steps: Tensor  # int64; padding repeats the first step that is learned from
    real: Tensor  # bool; False on padding
    learned: Tensor  # bool; False on padding and burn-in
    cut: Tensor  # bool; True on the first step after burn-in, where the gradient is cut

    def to(self, device: torch.device) -> ChunkPlan:
        """Return the plan on a device."""
        return ChunkPlan(self.begins, *(tensor.to(device) for tensor in self[1:]))


def plan_chunks(num_steps: int, unroll_len: int, last_fn_type: str = "last", burn_in: int = 0) -> ChunkPlan:
    """Split T steps into chunks of ``unroll_len``; ``last_fn_type`` selects what happens to remaining steps.

    'last' adds a chunk that overlaps the one before, 'drop' drops the steps, and 'null_padding' fills the chunk with
    masked steps; so does 'last' if T is shorter than a chunk.

    Each chunk starts with ``burn_in`` additional steps that are not learned from, so that the recurrent state is
    computed with the current weights (Kapturowski et al. 2019, https://openreview.net/forum?id=r1lyTjAqYX). Chunks at
    the start of the rollout have no such steps, and additional masked steps at their end instead.
    """
    if last_fn_type not in LAST_FN_TYPES:
        raise ValueError(f"last_fn_type='{last_fn_type}'; allowed: {', '.join(LAST_FN_TYPES)}")
    if unroll_len < 1:
        raise ValueError(f"unroll_len={unroll_len}: give a whole number of at least 1")
    if burn_in < 0:
        raise ValueError(f"burn_in={burn_in}: give a whole number of at least 0")
    full, residue = divmod(num_steps, unroll_len)
    starts = [k * unroll_len for k in range(full)]
    if residue and last_fn_type != "drop":
        overlaps = last_fn_type == "last" and full > 0
        starts.append(num_steps - unroll_len if overlaps else full * unroll_len)
    begins = tuple(max(0, start - burn_in) for start in starts)
    length = unroll_len + max((start - begin for start, begin in zip(starts, begins)), default=0)
    start = torch.tensor(starts, dtype=torch.long)
    steps = torch.arange(length).unsqueeze(1) + torch.tensor(begins, dtype=torch.long)
    real = steps < num_steps
    learned = real & (steps >= start) & (steps < start + unroll_len)
    cut = (steps == start) & (start > torch.tensor(begins, dtype=torch.long))
    return ChunkPlan(begins, torch.where(real, steps, start), real, learned, cut)


def gather_chunks(x: Tensor, plan: ChunkPlan, envs: Optional[Tensor] = None) -> Tensor:
    """Return the chunks of a rollout [T, N, ...] as [S, K*n, ...], one chunk after the other, for the environments
    ``envs`` [n] or for all."""
    envs = torch.arange(x.shape[1], device=x.device) if envs is None else envs
    return x[plan.steps.unsqueeze(-1), envs].flatten(1, 2)
