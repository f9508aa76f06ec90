"""Mini-batches of a rollout: shuffled steps, or shuffled environments with their sequences of steps."""

from __future__ import annotations

from typing import Dict, Iterator, Protocol, Tuple

import torch
from torch import Tensor

from rsl_rl.storage.chunking import ChunkPlan, gather_chunks
from rsl_rl.storage.mini_batch import LazyGroups, MiniBatch, split_columns
from rsl_rl.utils.trajectories import ResetMasks


class Rollout(Protocol):
    """Data that mini-batches are made of, see ``RolloutStorage``."""

    num_envs: int
    num_transitions_per_env: int
    device: torch.device
    groups: Dict[str, Tensor]  # each [T, N, ...]
    columns: Dict[str, Tensor]  # each [T, N, size], or [size] of those in ``shared``
    shared: Tuple[str, ...]
    declared: Tuple[str, ...]  # names of additional columns of mini-batches
    returns: Tensor  # [T, N, 1]
    advantages: Tensor  # [T, N, 1]
    plan: ChunkPlan
    saved_hidden_states_a: Tuple[Tensor, ...]  # each [K, L, N, H]
    saved_hidden_states_c: Tuple[Tensor, ...]


class StepBatches:
    """Mini-batches of single steps [B, ...]; an index counts the environments of one step after the other."""

    unit = "steps"

    def __init__(self, storage: Rollout):
        self._storage = storage
        self._joined = torch.empty(0, device=storage.device)  # [T*N, sizes of all float32 columns], allocated once

    @property
    def num_units(self) -> int:
        """Number of steps that are shuffled."""
        return self._storage.num_envs * self._storage.num_transitions_per_env

    def shuffled(self, num_mini_batches: int, num_epochs: int) -> Iterator[Tensor]:
        """Yield the indices [B] of the steps of each mini-batch, for :meth:`gather`."""
        self._join()
        return _shuffled(self.num_units, num_mini_batches, num_epochs, self._storage.device)

    def total_weight(self, steps: Tensor) -> Tensor:
        """Return the sum of the sample mask over the steps with these indices."""
        return self._storage.columns["sample_mask"].flatten().index_select(0, steps).sum()

    def gather(self, steps: Tensor) -> MiniBatch:
        """Return the steps with these indices [B]; float columns have the values of the call of ``shuffled``."""
        storage, columns = self._storage, _batch_columns(self._storage)
        floats = _floats(columns)
        sizes = [column.shape[-1] for column in floats.values()]
        parts = split_columns(self._joined.index_select(0, steps), list(floats), sizes)
        others = {name: column for name, column in columns.items() if name not in floats}
        parts.update({name: column.flatten(0, 1).index_select(0, steps) for name, column in others.items()})
        groups = LazyGroups(storage.groups, lambda _, group: group.flatten(0, 1).index_select(0, steps))
        return MiniBatch(groups, {**parts, **_shared_columns(storage)})

    def _join(self) -> None:
        """Concatenate the float32 columns, so that a step is gathered from one tensor."""
        columns = [column.flatten(0, 1) for column in _floats(_batch_columns(self._storage)).values()]
        if self._joined.dim() == 2 and self._joined.shape[1] == sum(column.shape[1] for column in columns):
            torch.cat(columns, dim=1, out=self._joined)
        else:
            self._joined = torch.cat(columns, dim=1)


class SequenceBatches:
    """Mini-batches of sequences [S, K*n, ...] of environments, split into chunks by the storage's plan."""

    unit = "environments"

    def __init__(self, storage: Rollout):
        self._storage = storage

    @property
    def num_units(self) -> int:
        """Number of environments that are shuffled."""
        return self._storage.num_envs

    def shuffled(self, num_mini_batches: int, num_epochs: int) -> Iterator[Tensor]:
        """Yield the indices [n] of the environments of each mini-batch, for :meth:`gather`."""
        num_envs = self._storage.num_envs
        if num_mini_batches > num_envs:
            raise ValueError(
                f"num_mini_batches={num_mini_batches} exceeds num_envs={num_envs}: recurrent mini-batches are "
                f"sets of whole environments, so use at most {num_envs}"
            )
        return _shuffled(num_envs, num_mini_batches, num_epochs, self._storage.device)

    def total_weight(self, envs: Tensor) -> Tensor:
        """Return the sum of the sample mask over the chunks of the environments with these indices."""
        plan = self._storage.plan
        mask = gather_chunks(self._storage.columns["sample_mask"].squeeze(-1), plan, envs)
        return (mask * _of_each_env(plan.learned, envs)).sum()

    def gather(self, envs: Tensor) -> MiniBatch:
        """Return the chunks of the environments with these indices [n]."""
        storage, plan = self._storage, self._storage.plan
        masks = ResetMasks.of_dones(gather_chunks(storage.columns["dones"].squeeze(-1), plan, envs))
        columns = {name: gather_chunks(x, plan, envs) for name, x in _batch_columns(storage).items()}
        columns["sample_mask"] = columns["sample_mask"] * _of_each_env(plan.learned, envs).unsqueeze(-1)
        return MiniBatch(
            LazyGroups(storage.groups, lambda _, group: gather_chunks(group, plan, envs)),
            {**columns, **_shared_columns(storage)},
            ResetMasks(masks.keep_state, masks.keep_gradient * _of_each_env(~plan.cut, envs)),
            (chunk_states(storage.saved_hidden_states_a, envs), chunk_states(storage.saved_hidden_states_c, envs)),
            envs=envs,
        )


def chunk_states(saved: Tuple[Tensor, ...], envs: Tensor) -> Tuple[Tensor, ...]:
    """Return the recurrent states [L, K*n, H] before the chunks of the environments ``envs`` [n], from those of all,
    each [K, L, N, H]."""
    return tuple(s[:, :, envs].transpose(0, 1).flatten(1, 2) for s in saved)


def _of_each_env(x: Tensor, envs: Tensor) -> Tensor:
    """Repeat x [S, K] for each environment: [S, K*n]."""
    return x.unsqueeze(-1).expand(*x.shape, len(envs)).flatten(1, 2)


def _batch_columns(storage: Rollout) -> Dict[str, Tensor]:
    """Return the columns of a mini-batch, each [T, N, size]."""
    names = ("actions", "values", "advantages", "returns", "actions_log_prob", "sample_mask", *storage.declared)
    computed = {"advantages": storage.advantages, "returns": storage.returns}
    every = {**storage.columns, **computed}
    return {name: every[name] for name in names if name not in storage.shared}


def _floats(columns: Dict[str, Tensor]) -> Dict[str, Tensor]:
    """Return the columns of float32."""
    return {name: column for name, column in columns.items() if column.dtype == torch.float32}


def _shared_columns(storage: Rollout) -> Dict[str, Tensor]:
    return {name: storage.columns[name] for name in storage.shared}


def _shuffled(count: int, num_mini_batches: int, num_epochs: int, device: torch.device) -> Iterator[Tensor]:
    for _ in range(num_epochs):
        yield from torch.randperm(count, device=device).tensor_split(num_mini_batches)
