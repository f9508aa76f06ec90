"""Rollouts as fields [N, T + 1, ...] by name, which collectors and algorithms share."""

from __future__ import annotations

import math
from importlib.util import find_spec
from typing import Dict, Iterator, Mapping, MutableMapping, Optional, Union

import torch
from torch import Tensor

from rsl_rl.compat.batches import tensordict as as_tensordict
from rsl_rl.compat.storage import RolloutStorage
from rsl_rl.storage.returns import bootstrap_timeouts
from rsl_rl.storage.rollout import Column

Rollout = MutableMapping[str, Tensor]
"""Fields by name: a dict, or a TensorDict of the package tensordict."""

ENDS = {"terminated": Column(1, torch.bool), "truncated": Column(1, torch.bool)}
"""Columns that a storage under a RolloutBuffer has in addition: how an episode ended."""

_COLUMNS = {
    "action": "actions", "sample_log_prob": "actions_log_prob", "value": "values", "reward": "rewards",
    "done": "dones", "terminated": "terminated", "truncated": "truncated",
}  # fmt: skip
_ATTACHED = {"advantage": "advantages", "return": "returns", "seq_mask": "sample_mask"}
"""Fields of algorithms that are columns of every storage."""


class RolloutBuffer:
    """A rollout of N environments, T steps and one more, as fields [N, T + 1, ...].

    The fields are ``obs`` [N, T + 1, obs_dim], ``action`` [N, T + 1, action_dim], and [N, T + 1] each
    ``sample_log_prob``, ``value`` and ``reward`` (float32), ``done``, ``terminated`` and ``truncated`` (bool). The last
    step of ``obs`` and ``value`` is the observation and the value after the rollout; that of other fields is padding.
    ``done`` is ``terminated`` or ``truncated``. All are views of ``storage``, a :class:`RolloutStorage`, so that both
    are the same rollout in the same memory.

    ``tensordict`` selects a TensorDict for the rollout, or a dict; None: a TensorDict where the package is installed.
    """

    storage: RolloutStorage

    def __init__(
        self,
        num_envs: int,
        rollout_len: int,
        obs_dim: int,
        action_dim: int,
        device: Union[str, torch.device] = "cpu",
        tensordict: Optional[bool] = None,
    ):
        storage = RolloutStorage(
            num_envs, rollout_len, [obs_dim], None, [action_dim], device, columns=ENDS, extra_step=True
        )
        self._bind(storage, find_spec("tensordict") is not None if tensordict is None else tensordict)

    @classmethod
    def over(cls, storage: RolloutStorage) -> RolloutBuffer:
        """Return a buffer whose rollout, a dict, is that of a storage with the columns ``ENDS`` and an extra step.

        The group "policy" is the field ``obs``; other groups, and columns declared there, keep their names.
        """
        buffer = cls.__new__(cls)
        buffer._bind(storage, tensordict=False)
        return buffer

    def _bind(self, storage: RolloutStorage, tensordict: bool) -> None:
        self.storage, self._tensordict = storage, tensordict
        self.num_envs, self.rollout_len = storage.num_envs, storage.num_steps
        groups = {"obs" if name == "policy" else name: rows for name, rows in storage.group_rows.items()}
        others = [name for name in storage.declared if name in storage.column_rows and name not in _COLUMNS]
        taken = [name for name in (*_COLUMNS, *_ATTACHED, *others) if name in groups]
        if taken:
            raise ValueError(f"an observation group is called '{taken[0]}', which is a field of rollouts; rename it")
        self._fields: Dict[str, Tensor] = {name: rows.transpose(0, 1) for name, rows in groups.items()}
        self._with_last = (*groups, "value")
        for name, column in (*_COLUMNS.items(), *zip(others, others)):
            self._fields[name] = self._field(column, is_scalar=name not in ("action", *others))
        self._is_full = False
        self.rollout = self._wrapped(self._fields)

    def _field(self, column: str, is_scalar: bool) -> Tensor:
        """Return a column as a field [N, T + 1] or [N, T + 1, size]."""
        rows = self.storage.column_rows[column]
        return (rows.squeeze(-1) if is_scalar else rows).transpose(0, 1)

    def _wrapped(self, fields: Mapping[str, Tensor]) -> Rollout:
        sizes = (self.num_envs, self.rollout_len + 1)
        return as_tensordict(fields, sizes, self.storage.device) if self._tensordict else dict(fields)

    def start_rollout(self) -> Rollout:
        """Return the rollout to write into, without the fields of algorithms and with zeros in the padding.

        A rollout that was added and not read yet is a RuntimeError.
        """
        if self._is_full:
            raise RuntimeError("the buffer has a rollout that was not read; call get() before start_rollout()")
        self.storage.clear()
        for name, field in self._fields.items():
            if name not in self._with_last:
                field[:, -1].zero_()
        self.rollout = self._wrapped(self._fields)
        return self.rollout

    def add(self, rollout: Rollout) -> None:
        """Mark the rollout as complete.

        Fields of another mapping, or of other tensors, are copied into the memory; fields of algorithms are kept. A
        missing field or another shape is a ValueError.
        """
        for name, field in self._fields.items():
            if name not in rollout.keys():  # noqa: SIM118  # a TensorDict has no other test
                raise ValueError(f"the rollout has no '{name}'; give {', '.join(self._fields)}")
            given = rollout[name]
            if given.shape != field.shape:
                raise ValueError(f"rollout['{name}'] has the shape {list(given.shape)}; give {list(field.shape)}")
            if given is not field:
                field.copy_(given)
                self.rollout[name] = field
        attached = {name: rollout[name] for name in rollout.keys() if name not in self._fields}  # noqa: SIM118
        if rollout is not self.rollout:
            self.rollout = self._wrapped({**self._fields, **attached})
        self.storage.step = self.rollout_len
        self._is_full = True

    def get(self, flatten: bool = True) -> Rollout:
        """Return the complete rollout and make room for the next: its transitions [N * T, ...], or without ``flatten``
        the rollout [N, T + 1, ...] itself. No complete rollout is a RuntimeError."""
        if not self._is_full:
            raise RuntimeError("the buffer has no complete rollout; write into start_rollout(), and call add() first")
        self._is_full = False
        return transition_view(self.rollout, flatten=True) if flatten else self.rollout

    def attach(self, **fields: Tensor) -> None:
        """Add fields [N, T, ...] or [N, T + 1, ...] of an algorithm to the rollout, and to the mini-batches of both
        buffer and storage. ``seq_mask`` is the sample mask of the storage; for the names of its columns see
        :class:`MiniBatch`."""
        storage = self.storage
        for name, values in fields.items():
            column = _ATTACHED.get(name, name)
            if name in self._fields or values.shape[0] != self.num_envs or values.dim() not in (2, 3):
                raise ValueError(
                    f"the field '{name}' {list(values.shape)} cannot be attached; take another name than "
                    f"{', '.join(self._fields)}, and the shape [{self.num_envs}, {self.rollout_len}] or "
                    f"[{self.num_envs}, {self.rollout_len}, size]"
                )
            if column not in storage.column_rows:
                storage.add_column(column, Column(math.prod(values.shape[2:]), values.dtype))
            target = self._field(column, is_scalar=values.dim() == 2)
            target[:, :-1] = values[:, : self.rollout_len]
            target[:, -1] = 0
            self.rollout[name] = target

    def write_last_obs(self, groups: Mapping[str, Tensor]) -> None:
        """Write the observation groups [N, ...] after the last step."""
        for name, rows in self.storage.group_rows.items():
            rows[-1].copy_(groups[name])

    def compute_returns(
        self, gamma: float, lam: float, normalize: bool = True, final_values: Optional[Tensor] = None
    ) -> None:
        """Attach ``advantage`` and ``return`` [N, T + 1], computed by :meth:`RolloutStorage.compute_returns`.

        A truncated episode is credited with ``final_values`` [N, T], the values of the observations in which episodes
        ended, or, if these are not given, with the value of the last observation that was acted on.
        """
        storage = self.storage
        columns = storage.columns
        rewards, values = columns["rewards"].clone(), columns["values"]
        final = values if final_values is None else final_values.transpose(0, 1).unsqueeze(-1)
        credited = bootstrap_timeouts(rewards, final, columns["truncated"], columns["dones"], gamma)
        columns["rewards"].copy_(credited)
        storage.compute_returns(storage.column_rows["values"][-1], gamma, lam, normalize)
        columns["rewards"].copy_(rewards)
        for name in ("advantage", "return"):
            self.rollout[name] = self._field(_ATTACHED[name], is_scalar=True)

    @staticmethod
    def transition_view(rollout: Rollout, flatten: bool = False) -> Rollout:
        """Call :func:`transition_view`."""
        return transition_view(rollout, flatten)

    def iterate_minibatches(self, batch_size: int) -> Iterator[Rollout]:
        """Yield the transitions of the rollout in shuffled mini-batches [batch_size, ...]; see
        :func:`iterate_minibatches`."""
        return iterate_minibatches(transition_view(self.rollout, flatten=True), batch_size)


def transition_view(rollout: Rollout, flatten: bool = False) -> Rollout:
    """Return all fields of a rollout [N, T + 1, ...] without the last step: [N, T, ...], or with ``flatten`` [N * T,
    ...]. A TensorDict gives a TensorDict."""
    num_envs, num_steps = rollout["action"].shape[0], rollout["action"].shape[1] - 1
    fields = {name: rollout[name][:, :num_steps] for name in rollout.keys()}  # noqa: SIM118
    if flatten:
        fields = {name: field.flatten(0, 1) for name, field in fields.items()}
    if isinstance(rollout, dict):
        return fields
    sizes = (num_envs * num_steps,) if flatten else (num_envs, num_steps)
    return as_tensordict(fields, sizes, rollout["action"].device)


def iterate_minibatches(
    rollout: Rollout, batch_size: int, device: Union[str, torch.device, None] = None
) -> Iterator[Rollout]:
    """Yield shuffled mini-batches [batch_size, ...] of flat transitions, each transition once; the last one may be
    smaller. ``device`` is where they are to be, by default where the transitions are."""
    if batch_size < 1:
        raise ValueError(f"batch_size={batch_size}: give a whole number of at least 1")
    if rollout["reward"].dim() != 1:
        raise ValueError(
            f"rollout['reward'] has the shape {list(rollout['reward'].shape)}; flatten the rollout by "
            "transition_view(rollout, flatten=True)"
        )
    source = rollout["reward"].device
    order = torch.randperm(len(rollout["reward"]), device=source)
    for steps in order.split(batch_size):
        fields = {name: rollout[name][steps].to(device or source) for name in rollout.keys()}  # noqa: SIM118
        yield fields if isinstance(rollout, dict) else as_tensordict(fields, (len(steps),), device or source)
