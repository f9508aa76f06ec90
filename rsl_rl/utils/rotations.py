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


def yaw_of(quat: Tensor) -> Tensor:
    """Return the angle about the vertical [N] of the body's x axis, in (-pi, pi], of quaternions [N, 4]."""
    w, x, y, z = quat.unbind(dim=-1)
    return torch.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
