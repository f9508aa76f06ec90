"""Check the shapes of a saved state."""

from __future__ import annotations

from typing import Any, Mapping

from torch import Tensor


def require_same_shapes(saved: Any, own: Any, name: str) -> None:
    """Raise a ValueError if a tensor of a saved state of physics has another shape than the same entry of ``own``.

    Entries that only one of the two nested dicts has are left to who loads them. ``name`` is that of ``saved``.
    """
    if isinstance(own, Mapping) and isinstance(saved, Mapping):
        for key, value in own.items():
            if key in saved:
                require_same_shapes(saved[key], value, f"{name}.{key}")
    elif isinstance(own, Tensor) and isinstance(saved, Tensor) and saved.shape != own.shape:
        raise ValueError(
            f"{name} has the shape {list(saved.shape)} and this simulation needs {list(own.shape)}; use the number of "
            "robots, the model and the engine of the run, or load it with load_env=False (--fresh_episodes)"
        )
