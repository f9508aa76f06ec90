"""Which rows or columns are meant."""

from __future__ import annotations

from typing import List, Sequence, Union


def as_slice(indices: Sequence[int]) -> Union[slice, List[int]]:
    """Return indices that follow each other as a slice, which picks without a copy; others as a list."""
    first, count = (indices[0] if indices else 0), len(indices)
    if list(indices) == list(range(first, first + count)):
        return slice(first, first + count)
    return list(indices)
