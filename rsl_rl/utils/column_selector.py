"""Which columns are meant."""

from __future__ import annotations

from typing import Sequence, Union

import torch
from torch import Tensor


class ColumnSelector:
    """Picks some columns [N, len(indices), ...] of tensors [N, C, ...]: a view where they follow each other, else a
    copy."""

    def __init__(self, indices: Sequence[int], device: Union[str, torch.device]):
        first, count = (indices[0] if indices else 0), len(indices)
        in_a_row = list(indices) == list(range(first, first + count))
        self._places = slice(first, first + count) if in_a_row else torch.tensor(indices, device=device)

    def __call__(self, x: Tensor) -> Tensor:
        return x[:, self._places] if isinstance(self._places, slice) else x.index_select(1, self._places)
