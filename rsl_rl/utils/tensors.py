"""Tensors of many environments: select columns, record first occurrences, and skip work on a CPU.

The functions whose names end with ``on_cpu`` return False or None on a GPU, to avoid a host synchronisation.
"""

from __future__ import annotations

from typing import Dict, Mapping, Optional, Sequence, Union

import torch
from torch import Tensor


def none_on_cpu(mask: Tensor) -> bool:
    """Return whether a mask is on a CPU and false everywhere."""
    # bool(mask.any()) counts as a host synchronisation, torch.equal does not
    return mask.device.type == "cpu" and torch.equal(mask, torch.zeros_like(mask))


def all_within_on_cpu(x: Tensor, limit: float) -> bool:
    """Return whether x is on a CPU, finite, and nowhere larger than a limit."""
    if x.device.type != "cpu":
        return False
    extremes, most = torch.stack(x.aminmax()), min(limit, torch.finfo(x.dtype).max)
    return torch.equal(extremes, extremes.clamp(-most, most))  # NaN equals nothing


def all_between_on_cpu(x: Tensor, low: Tensor, high: Tensor) -> bool:
    """Return whether x [N, D] is on a CPU, not NaN, and nowhere outside low and high [D]."""
    return x.device.type == "cpu" and torch.equal(x.float(), x.float().clamp(low, high))


def rows_on_cpu(mask: Tensor) -> Optional[Tensor]:
    """Return the indices of the rows that a mask [N] on a CPU marks; None on another device."""
    return mask.nonzero().squeeze(1) if mask.device.type == "cpu" else None


class ColumnSelector:
    """Select columns [N, len(indices), ...] of tensors [N, C, ...]: a view if they are contiguous, otherwise a copy."""

    def __init__(self, indices: Sequence[int], device: Union[str, torch.device]):
        first, count = (indices[0] if indices else 0), len(indices)
        contiguous = list(indices) == list(range(first, first + count))
        self._columns = slice(first, first + count) if contiguous else torch.tensor(indices, device=device)

    def __call__(self, x: Tensor) -> Tensor:
        return x[:, self._columns] if isinstance(self._columns, slice) else x.index_select(1, self._columns)


class FirstOccurrence:
    """Store data of the first environment with each kind of event.

    ``record`` does not synchronise with the device and may be called every step; ``read`` synchronises.
    """

    def __init__(self, kinds: Sequence[str], device: torch.device):
        self.kinds = tuple(kinds)
        self._device = device
        self._seen = torch.zeros(len(self.kinds), dtype=torch.bool, device=device)
        self._stored: Dict[str, Tensor] = {}  # each [kinds, ...]

    def record(self, masks: Tensor, step: int, rows: Mapping[str, Tensor]) -> None:
        """Add one step: ``masks`` [kinds, N] bool mark the environments with each kind of event, ``rows`` [N, ...] are
        the data to store. The names of rows are the same in every call."""
        if none_on_cpu(masks):
            return
        first = masks.to(torch.uint8).argmax(dim=1)  # the first environment with the event, if there is one
        new = masks.any(dim=1) & ~self._seen
        self._store("environment", new, first)
        self._store("step", new, torch.full_like(first, step))
        for name, row in rows.items():
            self._store(name, new, row.index_select(0, first))
        self._seen |= new

    def _store(self, name: str, new: Tensor, values: Tensor) -> None:
        if name in self._stored:
            values = torch.where(new.view(-1, *(1,) * (values.dim() - 1)), values, self._stored[name])
        self._stored[name] = values

    def read(self, kind: str) -> Optional[Dict[str, Tensor]]:
        """Return the rows of the first event of a kind, with its "environment" and "step", on the CPU; None if there
        was none."""
        i = self.kinds.index(kind) if kind in self.kinds else -1
        if i < 0 or not self._seen[i]:
            return None
        return {name: values[i].cpu().clone() for name, values in self._stored.items()}
