"""Mini-batches of a rollout: shuffled steps, or shuffled environments with their sequences of steps.

Sequences are split into chunks of equal length, for truncated backpropagation through time.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Callable, Dict, Iterator, Mapping, NamedTuple, Optional, Protocol, Tuple

import torch
from torch import Tensor

from rsl_rl.config.algorithm import LAST_FN_TYPES
from rsl_rl.utils.trajectories import HiddenState, ResetMasks


class ChunkPlan(NamedTuple):
    """Step of the rollout for each row of each chunk; tensors are [S, K], burn-in included."""

    begins: Tuple[int, ...]  # [K] the first step of each chunk, whose recurrent state is stored
    steps: Tensor  # int64; padding repeats the first step that is learned from
    real: Tensor  # bool; False on padding
    learned: Tensor  # bool; False on padding and burn-in
    cut: Tensor  # bool; True on the first step after burn-in, where the gradient is cut

    def to(self, device: torch.device) -> ChunkPlan:
        """Return the plan on a device."""
        return ChunkPlan(self.begins, *(tensor.to(device) for tensor in self[1:]))


class Rollout(Protocol):
    """Data that mini-batches are made of, see ``RolloutStorage``."""

    num_envs: int
    num_steps: int
    device: torch.device
    groups: Dict[str, Tensor]
    columns: Dict[str, Tensor]
    shared: Tuple[str, ...]
    in_batches: Tuple[str, ...]
    plan: ChunkPlan
    saved_states: Tuple[Tuple[Tensor, ...], Tuple[Tensor, ...]]


@dataclass
class LazyGroups(Mapping[str, Tensor]):
    """Observation groups that are computed from others when they are first read."""

    source: Mapping[str, Tensor]
    function: Callable[[str, Tensor], Tensor]
    computed: Dict[str, Tensor] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Tensor:
        if name not in self.computed:
            self.computed[name] = self.function(name, self.source[name])
        return self.computed[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.source)

    def __len__(self) -> int:
        return len(self.source)


@dataclass
class MiniBatch:
    """Samples [B, ...] for one gradient step, or for a policy with memory sequences [S, K*n, ...] of environments."""

    groups: Mapping[str, Tensor]
    """Observations by group."""
    columns: Dict[str, Tensor]
    """All other data by name, each [B, size]: those of ``standard_columns``, the parameters of the distribution that
    was sampled, and what extensions declare. Shared ones are [size]."""
    masks: Optional[ResetMasks] = None
    """Resets within the sequences; None without memory."""
    hidden_states: Tuple[HiddenState, HiddenState] = (None, None)
    """Recurrent states of actor and critic before the first step of the sequences."""
    num_original: Optional[int] = None
    """Number of collected samples (of sequences K*n) where an extension has appended others; None where not."""
    envs: Optional[Tensor] = None
    """Indices [n] of the environments of the sequences."""

    def replace(self, **changes: Any) -> MiniBatch:
        """Return a copy with other values of some attributes."""
        return replace(self, **changes)

    def with_columns(self, **columns: Tensor) -> MiniBatch:
        """Return a copy with other values of some columns."""
        return self.replace(columns={**self.columns, **columns})

    def original(self, x: Tensor) -> Tensor:
        """Return the collected samples of x [..., B, size]."""
        return x if self.num_original is None or x.dim() < 2 else x.narrow(-2, 0, self.num_original)

    @property
    def sample_mask(self) -> Tensor:
        """Weight [B, 1] of each sample in the mean: 1, or 0 for a masked sample."""
        return self.columns["sample_mask"]


def weighted_mean(x: Tensor, sample_mask: Tensor) -> Tensor:
    """Return the mean of x [..., 1] with a weight [..., 1] for each sample; 0 if all weights are 0."""
    return (x * sample_mask).sum() / sample_mask.sum().clamp(min=1.0)


class StepBatches:
    """Mini-batches of single steps [B, ...]; an index counts the environments of one step after the other."""

    unit = "steps"

    def __init__(self, storage: Rollout):
        self._storage = storage
        self.num_units = storage.num_envs * storage.num_steps  # steps that are shuffled
        self._joined = torch.empty(0, device=storage.device)  # [T*N, sizes of all float32 columns], allocated once

    def shuffled(self, num_mini_batches: int, num_epochs: int) -> Iterator[Tensor]:
        """Yield the indices [B] of the steps of each mini-batch, for :meth:`gather`; every step once an epoch."""
        columns = []
        for name in self._storage.in_batches:
            column = self._storage.columns[name]
            if column.dtype == torch.float32:
                columns.append(column.flatten(0, 1))
        if self._joined.dim() == 2:
            torch.cat(columns, dim=1, out=self._joined)  # so that a step is gathered from one tensor
        else:
            self._joined = torch.cat(columns, dim=1)
        for _ in range(num_epochs):
            order = torch.randperm(self.num_units, device=self._storage.device)
            yield from order.tensor_split(num_mini_batches)

    def total_weight(self, steps: Tensor) -> Tensor:
        """Return the sum of the sample mask over the steps with these indices."""
        return self._storage.columns["sample_mask"].flatten().index_select(0, steps).sum()

    def gather(self, steps: Tensor) -> MiniBatch:
        """Return the steps with these indices [B]; float columns have the values of the call of ``shuffled``."""
        storage = self._storage
        columns: Dict[str, Tensor] = {}
        joined, start = self._joined.index_select(0, steps), 0
        for name in storage.in_batches:
            column = storage.columns[name]
            if column.dtype == torch.float32:
                columns[name] = joined.narrow(-1, start, column.shape[-1])
                start += column.shape[-1]
            else:
                columns[name] = column.flatten(0, 1).index_select(0, steps)
        for name in storage.shared:
            columns[name] = storage.columns[name]
        return MiniBatch(LazyGroups(storage.groups, lambda _, x: x.flatten(0, 1).index_select(0, steps)), columns)


class SequenceBatches:
    """Mini-batches of sequences [S, K*n, ...] of environments, split into chunks by the storage's plan."""

    unit = "environments"

    def __init__(self, storage: Rollout):
        self._storage = storage
        self.num_units = storage.num_envs  # environments that are shuffled

    def shuffled(self, num_mini_batches: int, num_epochs: int) -> Iterator[Tensor]:
        """Yield the indices [n] of the environments of each mini-batch, for :meth:`gather`; every one once an epoch."""
        if num_mini_batches > self.num_units:
            raise ValueError(
                f"num_mini_batches={num_mini_batches} exceeds num_envs={self.num_units}: recurrent mini-batches are "
                f"sets of whole environments, so use at most {self.num_units}"
            )
        for _ in range(num_epochs):
            order = torch.randperm(self.num_units, device=self._storage.device)
            yield from order.tensor_split(num_mini_batches)

    def total_weight(self, envs: Tensor) -> Tensor:
        """Return the sum of the sample mask over the chunks of the environments with these indices."""
        plan = self._storage.plan
        mask = gather_chunks(self._storage.columns["sample_mask"].squeeze(-1), plan, envs)
        return (mask * _of_each_env(plan.learned, envs)).sum()

    def gather(self, envs: Tensor) -> MiniBatch:
        """Return the chunks of the environments with these indices [n]."""
        storage, plan = self._storage, self._storage.plan
        masks = ResetMasks.of_dones(gather_chunks(storage.columns["dones"].squeeze(-1), plan, envs))
        columns = {name: gather_chunks(storage.columns[name], plan, envs) for name in storage.in_batches}
        columns["sample_mask"] = columns["sample_mask"] * _of_each_env(plan.learned, envs).unsqueeze(-1)
        columns.update({name: storage.columns[name] for name in storage.shared})
        actor, critic = (chunk_states(saved, envs) for saved in storage.saved_states)
        return MiniBatch(
            LazyGroups(storage.groups, lambda _, group: gather_chunks(group, plan, envs)),
            columns,
            ResetMasks(masks.keep_state, masks.keep_gradient * _of_each_env(~plan.cut, envs)),
            (actor, critic),
            envs=envs,
        )


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


def gather_chunks(x: Tensor, plan: ChunkPlan, envs: Tensor) -> Tensor:
    """Return the chunks of a rollout [T, N, ...] as [S, K*n, ...], one chunk after the other, for the environments
    ``envs`` [n]."""
    return x[plan.steps.unsqueeze(-1), envs].flatten(1, 2)


def chunk_states(saved: Tuple[Tensor, ...], envs: Tensor) -> Tuple[Tensor, ...]:
    """Return the recurrent states [L, K*n, H] before the chunks of the environments ``envs`` [n], from those of all,
    each [K, L, N, H]."""
    return tuple(s[:, :, envs].transpose(0, 1).flatten(1, 2) for s in saved)


def _of_each_env(x: Tensor, envs: Tensor) -> Tensor:
    """Repeat x [S, K] for each environment: [S, K*n]."""
    return x.unsqueeze(-1).expand(*x.shape, len(envs)).flatten(1, 2)
