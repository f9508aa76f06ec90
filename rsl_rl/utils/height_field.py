"""A ground whose heights are given on a grid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Tuple

import numpy as np


@dataclass(frozen=True)
class HeightField:
    """Heights on a regular grid; every cell of four points consists of two triangles.

    The triangles of a cell meet at its diagonal from the point of the lowest to the point of the highest x and y.
    """

    heights: np.ndarray
    """Height of each point in world coordinates [m], float32 [points along x, points along y]."""
    cell: float
    """Distance between neighbouring points [m]."""
    origin: Tuple[float, float]
    """World coordinates x, y of the first point [m]."""

    def __post_init__(self):
        shape = np.shape(self.heights)
        if len(shape) != 2 or min(shape) < 2 or not np.isfinite(self.heights).all():
            limits = f"from {np.min(self.heights):g} to {np.max(self.heights):g} m"
            raise ValueError(f"heights of shape {list(shape)} {limits}; give finite ones at [2, 2] or more points")
        if not self.cell > 0:
            raise ValueError(f"a distance of {self.cell} m between points; give a positive one")

    @property
    def size(self) -> Tuple[float, float]:
        """Extent along x and y [m]."""
        nx, ny = self.heights.shape
        return (nx - 1) * self.cell, (ny - 1) * self.cell
