"""The first event of each kind among many environments, caught on the device."""

from __future__ import annotations

from typing import Dict, Mapping, Optional, Sequence

import torch
from torch import Tensor

from rsl_rl.utils.cpu_checks import none_on_cpu


class FirstOccurrence:
    """Keeps, for each kind of event, what the first environment that met with it looked like at that moment.

    ``record`` asks the device for nothing and may be called every step; ``read`` waits for it.
    """

    def __init__(self, kinds: Sequence[str], device: torch.device):
        self.kinds = tuple(kinds)
        self._device = device
        self._seen = torch.zeros(len(self.kinds), dtype=torch.bool, device=device)
        self._kept: Dict[str, Tensor] = {}  # each [kinds, ...]

    def record(self, masks: Tensor, step: int, rows: Mapping[str, Tensor]) -> None:
        """Take in one step: masks [kinds, N] bool say where each kind of event happens, rows [N, ...] what every
        environment looks like. The names of rows are the same in every call."""
        if none_on_cpu(masks):
            return
        first = masks.to(torch.uint8).argmax(dim=1)  # the environment, where there is one
        new = masks.any(dim=1) & ~self._seen
        self._keep("environment", new, first)
        self._keep("step", new, torch.full_like(first, step))
        for name, row in rows.items():
            self._keep(name, new, row.index_select(0, first))
        self._seen |= new

    def _keep(self, name: str, new: Tensor, values: Tensor) -> None:
        if name in self._kept:
            values = torch.where(new.view(-1, *(1,) * (values.dim() - 1)), values, self._kept[name])
        self._kept[name] = values

    def read(self, kind: str) -> Optional[Dict[str, Tensor]]:
        """Return the rows of the first event of a kind, and its "environment" and "step", on the CPU; None where there
        was none."""
        i = self.kinds.index(kind) if kind in self.kinds else -1
        if i < 0 or not self._seen[i]:
            return None
        return {name: values[i].cpu().clone() for name, values in self._kept.items()}
