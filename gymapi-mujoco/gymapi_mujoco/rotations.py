"""Rotation of vectors by quaternions w x y z, for tensors of either precision."""

from __future__ import annotations

import torch
from torch import Tensor


def rotate(quat: Tensor, vector: Tensor) -> Tensor:
    """Return vectors [..., 3] (or one [3]) turned from body to world axes by quaternions [..., 4]."""
    axis = quat[..., 1:]
    vector = vector.expand(axis.shape)
    twice = 2 * torch.linalg.cross(axis, vector)
    return vector + quat[..., :1] * twice + torch.linalg.cross(axis, twice)


def rotate_inverse(quat: Tensor, vector: Tensor) -> Tensor:
    """Return vectors [..., 3] turned from world to body axes."""
    return rotate(torch.cat((quat[..., :1], -quat[..., 1:]), dim=-1), vector)
