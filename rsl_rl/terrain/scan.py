"""Points of the height scan around a robot."""

from __future__ import annotations

from typing import Tuple

import torch
from torch import Tensor

LENGTH, WIDTH = 1.6, 1.0
"""Extent of the scan along the robot's heading and across it [m]."""

NUM_X, NUM_Y = 17, 11
"""Points along the heading and across it."""

NUM_POINTS = NUM_X * NUM_Y

MIRROR = tuple(NUM_Y * i + NUM_Y - 1 - j for i in range(NUM_X) for j in range(NUM_Y))
"""Index of the point that corresponds to each point in the left-right mirror image."""


class ScanGrid:
    """The points of the scan, from the rear to the front, and for each x from the right to the left."""

    def __init__(self, device: torch.device):
        x = torch.linspace(-LENGTH / 2, LENGTH / 2, NUM_X, device=device)
        y = torch.linspace(-WIDTH / 2, WIDTH / 2, NUM_Y, device=device)
        grid = torch.stack(torch.meshgrid(x, y, indexing="ij")).flatten(1)  # [2, points]
        self._grid = torch.cat((torch.ones_like(grid[:1]), grid))

    def __call__(self, position: Tensor, heading: Tensor) -> Tuple[Tensor, Tensor]:
        """Return x and y of the points in world coordinates, each [N, points].

        ``position`` [N, 2] is the middle of the scan, ``heading`` [N, 2] a unit vector.
        """
        (px, py), (c, s) = position.unbind(dim=1), heading.unbind(dim=1)
        return torch.stack((px, c, -s), dim=1) @ self._grid, torch.stack((py, s, c), dim=1) @ self._grid
