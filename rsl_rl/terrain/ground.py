"""Height of the ground at points, on the device, and the points of the height scan around a robot."""

from __future__ import annotations

from typing import Optional, Tuple

import torch
from torch import Tensor

from rsl_rl.utils.height_field import HeightField

LENGTH, WIDTH = 1.6, 1.0
"""Extent of the height scan along the robot's heading and across it [m]."""

NUM_X, NUM_Y = 17, 11
"""Points of the height scan along the heading and across it."""

MIRROR = tuple(NUM_Y * i + NUM_Y - 1 - j for i in range(NUM_X) for j in range(NUM_Y))
"""Index of the point that corresponds to each point in the left-right mirror image."""


class Ground:
    """The plane z = 0."""

    def height_at(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the height of the ground at x, y in world coordinates [m], each [...]."""
        return torch.zeros_like(x)

    def height_above(self, points: Tensor) -> Tensor:
        """Return the height of points [..., 3] above the ground [m], [...]."""
        return points[..., 2]


class GridGround(Ground):
    """The surface of a height field, which MuJoCo's collisions and rays also use, see :class:`HeightField`.

    Outside the grid the height is that of the nearest point on its edge.
    """

    def __init__(self, field: HeightField, device: torch.device):
        num_x, self._num_y = field.heights.shape
        self._heights = torch.as_tensor(field.heights, dtype=torch.float32).flatten().to(device)
        self._scale = 1 / field.cell
        self._first = tuple(-start / field.cell for start in field.origin)
        self._last = (num_x - 1 - 1e-3, self._num_y - 1 - 1e-3)

    def height_at(self, x: Tensor, y: Tensor) -> Tensor:
        x = (x * self._scale).add_(self._first[0]).clamp_(0.0, self._last[0])  # in cells
        y = (y * self._scale).add_(self._first[1]).clamp_(0.0, self._last[1])
        x, y = x.nan_to_num_(0.0), y.nan_to_num_(0.0)  # of a broken robot
        low = x.int().mul_(self._num_y).add_(y.int())  # index of the cell's first corner
        x, y = x.frac_(), y.frac_()
        larger, smaller = torch.maximum(x, y), torch.minimum(x, y)
        # the third corner of the triangle, beside the diagonal; one gather per corner is fastest on a CPU
        beside = low + (x >= y).int().mul_(self._num_y - 1).add_(1)
        first, second, third = (self._look_up(index) for index in (low, beside, low + (self._num_y + 1)))
        first.addcmul_(larger, second - first)
        return first.addcmul_(smaller, third - second)

    def _look_up(self, index: Tensor) -> Tensor:
        return self._heights.index_select(0, index.flatten()).view(index.shape)

    def height_above(self, points: Tensor) -> Tensor:
        x, y, z = points.unbind(dim=-1)
        return z - self.height_at(x, y)


def ground_of(field: Optional[HeightField], device: torch.device) -> Ground:
    """Return the ground of a simulation; without a height field it is the plane."""
    return Ground() if field is None else GridGround(field, device)


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
