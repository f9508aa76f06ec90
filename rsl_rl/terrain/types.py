"""Types of rough ground: functions that return the heights of a tile.

A type is a function ``type(tile, difficulty, **params)``. It returns the heights [m] of the points of a :class:`Tile`,
[n, n], without changing its arguments. The difficulty is from 0 to 1; a pair of numbers among the parameters is the
value at the difficulty 0 and at 1, and one number the value at each. "Up" and "down" are the directions of a robot that
walks away from the middle. The heights of the outermost points become 0, so that neighbouring tiles fit together.
"""

from __future__ import annotations

import inspect
import math
from typing import Callable, Dict, NamedTuple, Tuple, Union

import numpy as np

from rsl_rl.config.base import linear

Pair = Union[float, Tuple[float, float]]
"""Value at the difficulty 0 and at the difficulty 1, or one value for all."""

_MARGIN = 0.3
"""Width of the flat strip at the edges of a tile [m]."""


class Tile(NamedTuple):
    """A square tile before its heights are known."""

    x: np.ndarray  # [n, n] coordinates of the points, from the middle of the tile [m]
    y: np.ndarray  # [n, n]
    size: float  # [m]
    platform: float  # size of the square in the middle on which robots start [m]
    rng: np.random.Generator

    @property
    def radius(self) -> np.ndarray:
        """The larger of the two distances from the middle, [n, n]: constant on squares."""
        return np.maximum(np.abs(self.x), np.abs(self.y))

    @property
    def inner(self) -> float:
        """Radius of the platform [m]."""
        return self.platform / 2

    @property
    def outer(self) -> float:
        """Radius at which the flat strip at the edge begins [m]."""
        return self.size / 2 - _MARGIN

    @property
    def cell(self) -> float:
        """Distance between neighbouring points [m]."""
        return float(self.x[1, 0] - self.x[0, 0])


def at_difficulty(value: Pair, difficulty: float) -> float:
    """Return the value between the two numbers of a pair; a single number is the value at each difficulty."""
    return linear(*((value, value) if isinstance(value, (int, float)) else value), difficulty)


def flat(tile: Tile, difficulty: float) -> np.ndarray:
    """Level ground."""
    return np.zeros_like(tile.x)


def slope_up(tile: Tile, difficulty: float, *, slope: Pair = (0.05, 0.5)) -> np.ndarray:
    """A cone of the given rise per length around the platform; a grid cannot show the ridges of a pyramid."""
    radius = np.hypot(tile.x, tile.y)
    return at_difficulty(slope, difficulty) * (np.clip(radius, tile.inner, tile.outer) - tile.outer)


def slope_down(tile: Tile, difficulty: float, *, slope: Pair = (0.05, 0.5)) -> np.ndarray:
    """The same, downwards."""
    return -slope_up(tile, difficulty, slope=slope)


def rough_slope_up(
    tile: Tile, difficulty: float, *, slope: Pair = (0.0, 0.4), roughness: Pair = (0.02, 0.06), spacing: float = 0.2
) -> np.ndarray:
    """A slope with random bumps of at most ``roughness`` [m], ``spacing`` [m] apart."""
    return slope_up(tile, difficulty, slope=slope) + _bumps(tile, at_difficulty(roughness, difficulty), spacing)


def rough_slope_down(
    tile: Tile, difficulty: float, *, slope: Pair = (0.0, 0.4), roughness: Pair = (0.02, 0.06), spacing: float = 0.2
) -> np.ndarray:
    """The same, downwards."""
    return slope_down(tile, difficulty, slope=slope) + _bumps(tile, at_difficulty(roughness, difficulty), spacing)


def stairs_up(tile: Tile, difficulty: float, *, step_height: Pair = (0.03, 0.2), step_width: float = 0.3) -> np.ndarray:
    """Stairs on all four sides; a riser is one cell long."""
    num_steps = math.floor((tile.outer - tile.inner) / step_width + 1e-6)
    step = np.floor((tile.radius - tile.inner) / step_width + 1e-6) + 1
    return at_difficulty(step_height, difficulty) * (step.clip(0, num_steps) - num_steps)


def stairs_down(
    tile: Tile, difficulty: float, *, step_height: Pair = (0.03, 0.2), step_width: float = 0.3
) -> np.ndarray:
    """The same, downwards."""
    return -stairs_up(tile, difficulty, step_height=step_height, step_width=step_width)


def obstacles(
    tile: Tile,
    difficulty: float,
    *,
    height: Pair = (0.03, 0.2),
    size: Tuple[float, float] = (0.5, 1.5),
    density: float = 0.6,
) -> np.ndarray:
    """Random rectangular blocks and pits; ``size`` are their smallest and largest sides [m], ``density`` their number
    per square metre."""
    heights, largest = np.zeros_like(tile.x), at_difficulty(height, difficulty)
    for _ in range(round(density * tile.size**2)):
        half_x, half_y = tile.rng.uniform(*size, 2) / 2
        x, y = tile.rng.uniform(-tile.outer, tile.outer, 2)
        inside = (np.abs(tile.x - x) <= half_x) & (np.abs(tile.y - y) <= half_y)
        heights[inside] = largest * tile.rng.choice((-1.0, -0.5, 0.5, 1.0))
    heights[(tile.radius <= tile.inner + 1e-6) | (tile.radius > tile.outer)] = 0.0
    return heights


def stepping_stones(
    tile: Tile,
    difficulty: float,
    *,
    stone_size: Pair = (1.2, 0.4),
    gap: Pair = (0.1, 0.3),
    unevenness: Pair = (0.0, 0.05),
    depth: Pair = (0.1, 0.5),
) -> np.ndarray:
    """Square stones with gaps between them; each is up to ``unevenness`` [m] higher or lower. All lengths are whole
    cells, at least one."""
    stone = max(1, round(at_difficulty(stone_size, difficulty) / tile.cell))
    pitch = stone + max(1, round(at_difficulty(gap, difficulty) / tile.cell))
    number = np.arange(len(tile.x)) // pitch  # of the stone along one axis
    on_stone = np.arange(len(tile.x)) % pitch < stone
    largest, count = at_difficulty(unevenness, difficulty), number[-1] + 1
    tops = tile.rng.uniform(-largest, largest, (count, count))[np.ix_(number, number)]
    heights = np.where(np.logical_and.outer(on_stone, on_stone), tops, -at_difficulty(depth, difficulty))
    heights[(tile.radius <= tile.inner + 1e-6) | (tile.radius > tile.outer)] = 0.0
    return heights


def gap(tile: Tile, difficulty: float, *, width: Pair = (0.0, 0.5), depth: Pair = (0.1, 0.5)) -> np.ndarray:
    """A gap around the platform; ``width`` [m] is that of its bottom, and each wall is one cell long."""
    start, end = tile.inner + tile.cell, tile.inner + tile.cell + at_difficulty(width, difficulty)
    return np.where((tile.radius > start - 1e-6) & (tile.radius < end + 1e-6), -at_difficulty(depth, difficulty), 0.0)


def waves(tile: Tile, difficulty: float, *, amplitude: Pair = (0.02, 0.2), wavelength: float = 2.0) -> np.ndarray:
    """Waves along both axes that fade towards the platform and the edge."""
    turns = 2 * math.pi / wavelength
    height = (np.sin(turns * tile.x) + np.sin(turns * tile.y)) / 2
    return at_difficulty(amplitude, difficulty) * height * _fade(tile.radius - tile.inner) * _edge(tile)


def _bumps(tile: Tile, largest: float, spacing: float) -> np.ndarray:
    """Return random heights on a coarser grid, linearly interpolated, which fade towards the edge."""
    coarse = np.arange(-tile.size / 2, tile.size / 2 + spacing, spacing)
    values = tile.rng.uniform(-largest, largest, (len(coarse), len(coarse)))
    along_x = np.stack([np.interp(tile.x[:, 0], coarse, column) for column in values.T], axis=1)
    return np.stack([np.interp(tile.y[0], coarse, row) for row in along_x]) * _edge(tile)


def _edge(tile: Tile) -> np.ndarray:
    return _fade(tile.outer - tile.radius)


def _fade(distance: np.ndarray) -> np.ndarray:
    """Return 0 up to the distance 0 and 1 from 0.5 m on."""
    return (distance / 0.5).clip(0.0, 1.0)


TYPES: Dict[str, Callable[..., np.ndarray]] = {
    name: function
    for name, function in list(globals().items())
    if inspect.isfunction(function) and next(iter(inspect.signature(function).parameters)) == "tile" and name[0] != "_"
}
"""Every type of this file by its name."""
