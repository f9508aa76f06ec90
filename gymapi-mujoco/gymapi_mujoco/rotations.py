"""Rotations by quaternions w x y z, MuJoCo's order: of NumPy arrays, and of tensors of either precision."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor


def identity() -> np.ndarray:
    """Return the quaternion of no rotation."""
    return np.array([1.0, 0.0, 0.0, 0.0])


def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the product of quaternions [4]: first b, then a."""
    w = a[0] * b[0] - a[1:] @ b[1:]
    return np.concatenate(([w], a[0] * b[1:] + b[0] * a[1:] + np.cross(a[1:], b[1:])))


def euler_to_wxyz(roll: float, pitch: float, yaw: float) -> np.ndarray:
    """Return rotations about x, then y, then z of the fixed frame (URDF's rpy) as a quaternion."""
    result = identity()
    for axis, angle in enumerate((roll, pitch, yaw)):
        turn = np.array([math.cos(angle / 2), 0.0, 0.0, 0.0])
        turn[1 + axis] = math.sin(angle / 2)
        result = multiply(turn, result)
    return result


def rotation_matrix(quat: np.ndarray) -> np.ndarray:
    """Return the matrices [..., 3, 3] of unit quaternions [..., 4]."""
    w, x, y, z = np.moveaxis(quat, -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def rotate(quat: Tensor, vector: Tensor) -> Tensor:
    """Return vectors [..., 3] (or one [3]) turned from body to world axes by quaternions [..., 4]."""
    axis = quat[..., 1:]
    vector = vector.expand(axis.shape)
    twice = 2 * torch.linalg.cross(axis, vector)
    return vector + quat[..., :1] * twice + torch.linalg.cross(axis, twice)


def rotate_inverse(quat: Tensor, vector: Tensor) -> Tensor:
    """Return vectors [..., 3] turned from world to body axes."""
    return rotate(torch.cat((quat[..., :1], -quat[..., 1:]), dim=-1), vector)
