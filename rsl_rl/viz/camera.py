"""Size of a model, for cameras; the values of a Go2 are those of its model file."""

from __future__ import annotations

from typing import Any

_EXTENT, _HEIGHT = 1.5, 0.3  # of the <statistic> of go2.xml [m]


def scale_of(model: Any) -> float:
    """Return how many times the size of a Go2 a ``mujoco.MjModel`` has, by the extent of its <statistic>."""
    return float(model.stat.extent) / _EXTENT


def height_to_look_at(model: Any) -> float:
    """Return the height that a camera looks at [m]: 0.25 for a Go2, by the centre of the <statistic>."""
    return 0.25 * float(model.stat.center[2]) / _HEIGHT
