"""Quaternions in the order w x y z, rotating body coordinates into the world; batched over the leading dimension."""

from __future__ import annotations

import torch
from torch import Tensor


def rotate_inverse(quat: Tensor, vector: Tensor) -> Tensor:
    """Turn vectors [N, 3] from the world frame into the body frame by quat [N, 4]."""
    w, axis = quat[:, :1], quat[:, 1:]
    cross = torch.linalg.cross(axis, vector)
    twice_cross = cross + cross
    return vector - w * twice_cross + torch.linalg.cross(axis, twice_cross)


def from_yaw(yaw: Tensor) -> Tensor:
    """Return the rotation about the vertical by yaw [N] rad, as quaternions [N, 4]."""
    half, zero = yaw / 2, torch.zeros_like(yaw)
    return torch.stack((torch.cos(half), zero, zero, torch.sin(half)), dim=-1)


def heading(quat: Tensor) -> Tensor:
    """Return the horizontal direction of the body's x axis, a unit vector [N, 2]; quat [N, 4]."""
    w, x, y, z = quat.unbind(dim=-1)
    forward = torch.stack((1 - 2 * (y * y + z * z), 2 * (x * y + w * z)), dim=-1)
    return torch.nn.functional.normalize(forward, dim=-1)


def turn(direction: Tensor, vector: Tensor) -> Tensor:
    """Turn horizontal vectors [..., 2] by the angle between x and a direction, unit vectors of the same shape."""
    (c, s), (x, y) = direction.unbind(dim=-1), vector.unbind(dim=-1)
    return torch.stack((c * x - s * y, s * x + c * y), dim=-1)


def yaw_of(quat: Tensor) -> Tensor:
    """Return the angle about the vertical [N] of the body's x axis, in (-pi, pi], of quaternions [N, 4]."""
    w, x, y, z = quat.unbind(dim=-1)
    return torch.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
