"""Metrics of an update."""

from __future__ import annotations

from typing import Any, Dict, Iterator, Mapping, Tuple

from torch import Tensor


class UnpackedMetrics(Dict[str, Tensor]):
    """Metrics by name that also unpack into some of them as numbers: ``value_loss, surrogate_loss = alg.update()``.

    So iterating yields these numbers, None for one that is not there; ``keys()`` and ``items()`` are those of all.
    """

    def __init__(self, metrics: Mapping[str, Tensor], unpacked: Tuple[str, ...]):
        super().__init__(metrics)
        self._unpacked = unpacked

    def __iter__(self) -> Iterator[Any]:
        if self._unpacked:
            return iter([float(self[name]) if name in self else None for name in self._unpacked])
        return super().__iter__()
