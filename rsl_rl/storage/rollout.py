"""Memory of a rollout: T steps of N environments.

Letters, here and in all of the learner: T steps of a rollout, N environments, D policy observation, C critic
observation, A actions, B rows of a flat mini-batch, n environments of a recurrent mini-batch, M trajectories, K chunks
of an environment, S steps of the longest trajectory or chunk, L layers of a memory, H its hidden size.
"""

from __future__ import annotations

from typing import Dict, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from rsl_rl.storage.mini_batches import ChunkPlan, SequenceBatches, StepBatches, plan_chunks
from rsl_rl.utils.trajectories import HiddenState, as_states


class GroupSpec(NamedTuple):
    """Shape and type of an observation group for one environment."""

    shape: Tuple[int, ...]
    dtype: torch.dtype = torch.float32

    @classmethod
    def of(cls, group: Tensor) -> GroupSpec:
        """Return the spec for storing a group [N, ...]; float64 is stored as float32."""
        return cls(tuple(group.shape[1:]), torch.float32 if group.dtype == torch.float64 else group.dtype)


class Column(NamedTuple):
    """Values that are stored for each step besides observations, [T, N, size]."""

    size: int
    dtype: torch.dtype = torch.float32
    shared: bool = False
    """The same for all samples of a rollout, and stored once [size]."""
    in_batches: bool = True
    """Whether mini-batches hold it."""


def standard_columns(action_size: int) -> Dict[str, Column]:
    """Return the columns of every rollout, by name. The parameters of the distribution over actions, and what
    extensions declare, are stored beside them."""
    return {
        "actions": Column(action_size),
        "values": Column(1),
        "advantages": Column(1),
        "returns": Column(1),
        "actions_log_prob": Column(1),
        "sample_mask": Column(1),  # weight of the sample in the mean of the loss: 1, or 0 for a masked one
        "rewards": Column(1, in_batches=False),
        "dones": Column(1, torch.bool, in_batches=False),
        "time_outs": Column(1, torch.bool, in_batches=False),  # not yet credited with a value
    }


class Transition(NamedTuple):
    """One step of all environments: observation groups [N, ...] and columns [N, size] by name."""

    groups: Dict[str, Tensor]
    columns: Dict[str, Tensor]


class RolloutStorage:
    """T steps of N environments, written step by step and read as mini-batches.

    ``groups`` are the observation groups to store, and ``columns`` what is stored beside :func:`standard_columns`. With
    ``sequences``, mini-batches consist of whole environments, split into chunks by ``plan``.
    """

    def __init__(
        self,
        num_envs: int,
        num_steps: int,
        groups: Mapping[str, GroupSpec],
        action_size: int,
        columns: Mapping[str, Column],
        device: Union[str, torch.device] = "cpu",
        plan: Optional[ChunkPlan] = None,
        sequences: bool = False,
    ):
        self.num_envs, self.num_steps, self.device = num_envs, num_steps, torch.device(device)
        declared = {**standard_columns(action_size), **columns}
        self.shared = tuple(name for name, column in declared.items() if column.shared)
        self.in_batches = tuple(name for name, c in declared.items() if c.in_batches and not c.shared)
        self.groups: Dict[str, Tensor] = {name: self.allocate(*spec) for name, spec in groups.items()}
        self.columns: Dict[str, Tensor] = {}  # each [T, N, size], or [size] of those in ``shared``
        for name, column in declared.items():
            if column.shared:
                self.columns[name] = torch.zeros(column.size, dtype=column.dtype, device=self.device)
            else:
                self.columns[name] = self.allocate((column.size,), column.dtype)
        self.plan = (plan or plan_chunks(num_steps, num_steps)).to(self.device)
        self.saved_states: Tuple[Tuple[Tensor, ...], Tuple[Tensor, ...]] = ((), ())
        """Recurrent states of actor and critic where chunks begin, each [K, L, N, H]."""
        self.batches = SequenceBatches(self) if sequences else StepBatches(self)
        self._rows = [self._view(step) for step in range(num_steps)]
        self.step = 0
        self.clear()

    def allocate(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Return zeros [T, N, *shape] for a group or column."""
        return torch.zeros(self.num_steps, self.num_envs, *shape, dtype=dtype, device=self.device)

    def _view(self, step: int) -> Transition:
        """Return views of one step; they are reused in every rollout."""
        columns = {name: column if name in self.shared else column[step] for name, column in self.columns.items()}
        return Transition({name: group[step] for name, group in self.groups.items()}, columns)

    def begin_step(self, obs: Mapping[str, Tensor], states: Tuple[HiddenState, HiddenState]) -> Transition:
        """Store the observation groups of the next step, and the recurrent states before it; return views of the step's
        memory. The caller writes the rest into them, and then increments ``step``.

        All of this happens before the environment steps, so that it may refresh its observation buffer in place.
        """
        if self.step >= self.num_steps:
            raise OverflowError(f"the rollout already has {self.step} steps; call clear() before the next one")
        row = self._rows[self.step]
        for name, place in row.groups.items():
            place.copy_(obs[name])
        if self.step in self.plan.begins and not (states[0] is None and states[1] is None):
            self.save_states(states)
        return row

    def save_states(self, states: Tuple[HiddenState, HiddenState]) -> None:
        """Store the recurrent states [L, N, H] of actor and critic at the start of chunks.

        Every other trajectory starts after a done, with zeros.
        """
        actor, critic = (self._saved(*pair) for pair in zip(self.saved_states, states))
        self.saved_states = actor, critic

    def _saved(self, saved: Tuple[Tensor, ...], state: HiddenState) -> Tuple[Tensor, ...]:
        """Store the state of one network; allocate the memory at the first call."""
        states = as_states(state)
        if states and not saved:
            saved = tuple(s.new_zeros(len(self.plan.begins), *s.shape) for s in states)
        for chunk in (chunk for chunk, begin in enumerate(self.plan.begins) if begin == self.step):
            for i, target in enumerate(saved):
                target[chunk] = states[i] if states else 0.0
        return saved

    def clear(self) -> None:
        """Start the next rollout at the first step, without time-outs and with a sample mask of ones."""
        self.step = 0
        self.columns["time_outs"].zero_()
        self.columns["sample_mask"].fill_(1.0)
