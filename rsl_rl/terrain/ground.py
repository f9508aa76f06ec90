"""Height of the ground at points, on the device."""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor

from rsl_rl.utils.height_field import HeightField


class Ground:
    """The plane z = 0."""

    is_plane = True

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

    is_plane = False

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
