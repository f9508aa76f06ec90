"""Record the first occurrence of each kind of event among many environments, on the device."""

from __future__ import annotations

from typing import Dict, Mapping, Optional, Sequence

import torch
from torch import Tensor

from rsl_rl.utils.cpu_checks import none_on_cpu


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
