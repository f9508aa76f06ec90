"""Check that values can be saved and loaded without executing code."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from torch import Tensor
from torch.nn import Parameter

_LEAVES = (bool, int, float, complex, str, bytes, type(None), Tensor, Parameter)


def check_serializable(value: Any, where: str) -> None:
    """Raise a ValueError if ``torch.load`` with ``weights_only=True`` could not load a value."""
    kind = type(value)
    if kind in (dict, OrderedDict):
        for key, item in value.items():
            check_serializable(key, f"a key of {where}")
            check_serializable(item, f"{where}[{key!r}]")
    elif kind in (list, tuple):
        for i, item in enumerate(value):
            check_serializable(item, f"{where}[{i}]")
    elif kind not in _LEAVES:
        raise ValueError(
            f"{where} is a {kind.__module__}.{kind.__qualname__}, which a checkpoint cannot hold; give tensors, "
            "numbers, texts, and lists, tuples and dicts of them (torch.from_numpy(array), float(number))"
        )
