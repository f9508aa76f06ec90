"""Select columns of tensors."""

from __future__ import annotations

from typing import Sequence, Union

import torch
from torch import Tensor


class ColumnSelector:
    """Select columns [N, len(indices), ...] of tensors [N, C, ...]: a view if they are contiguous, otherwise a copy."""

    def __init__(self, indices: Sequence[int], device: Union[str, torch.device]):
        first, count = (indices[0] if indices else 0), len(indices)
        contiguous = list(indices) == list(range(first, first + count))
        self._columns = slice(first, first + count) if contiguous else torch.tensor(indices, device=device)

    def __call__(self, x: Tensor) -> Tensor:
        return x[:, self._columns] if isinstance(self._columns, slice) else x.index_select(1, self._columns)
