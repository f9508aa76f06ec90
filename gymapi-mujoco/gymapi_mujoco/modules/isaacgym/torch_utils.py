"""Rotations, transforms and random numbers for torch; quaternions are x y z w.

All functions can be called from functions compiled by ``torch.jit.script``.
"""

from typing import Tuple

import numpy as np  # clients get it by `from isaacgym.torch_utils import *`
import torch
from torch import Tensor


def to_torch(x, dtype=torch.float, device: str = "cpu", requires_grad: bool = False):
    """Return a tensor of a number, a list or an array."""
    if isinstance(x, torch.Tensor):
        return x.detach().to(device=device, dtype=dtype).clone().requires_grad_(requires_grad)
    return torch.tensor(x, dtype=dtype, device=device, requires_grad=requires_grad)


def normalize(x: Tensor, eps: float = 1e-9) -> Tensor:
    """Return vectors [..., k] of length one; a norm below eps counts as eps."""
    return x / x.norm(p=2, dim=-1).clamp(min=eps).unsqueeze(-1)


def quat_unit(a: Tensor) -> Tensor:
    return normalize(a)


def quat_mul(a: Tensor, b: Tensor) -> Tensor:
    """Return the product of quaternions [..., 4]: the rotation b, then a."""
    va, wa = a[..., :3], a[..., 3:4]
    vb, wb = b[..., :3], b[..., 3:4]
    vector = wa * vb + wb * va + torch.cross(va, vb, dim=-1)
    scalar = wa * wb - (va * vb).sum(dim=-1, keepdim=True)
    return torch.cat([vector, scalar], dim=-1)


def quat_conjugate(a: Tensor) -> Tensor:
    return torch.cat([-a[..., :3], a[..., 3:4]], dim=-1)


def quat_apply(a: Tensor, b: Tensor) -> Tensor:
    """Return vectors b [..., 3] turned by unit quaternions a [..., 4]; the shape is that of b."""
    shape = b.shape
    a, b = a.reshape(-1, 4), b.reshape(-1, 3)
    axis = a[:, :3]
    twice = torch.cross(axis.expand(b.shape[0], 3), b, dim=-1) * 2
    return (b + a[:, 3:] * twice + torch.cross(axis.expand(b.shape[0], 3), twice, dim=-1)).view(shape)


def quat_rotate(q: Tensor, v: Tensor) -> Tensor:
    """Return vectors [N, 3] turned by quaternions [N, 4] from the body's axes to the world's."""
    axis, w = q[:, :3], q[:, 3:4]
    return (
        v * (2.0 * w * w - 1.0)
        + torch.cross(axis, v, dim=-1) * w * 2.0
        + axis * (axis * v).sum(dim=-1, keepdim=True) * 2.0
    )


def quat_rotate_inverse(q: Tensor, v: Tensor) -> Tensor:
    """Return vectors [N, 3] turned by the inverse of quaternions [N, 4], from the world's axes to the body's."""
    axis, w = q[:, :3], q[:, 3:4]
    return (
        v * (2.0 * w * w - 1.0)
        - torch.cross(axis, v, dim=-1) * w * 2.0
        + axis * (axis * v).sum(dim=-1, keepdim=True) * 2.0
    )


my_quat_rotate = quat_rotate


def quat_axis(q: Tensor, axis: int = 0) -> Tensor:
    """Return the axis of the given number of rotated frames [N, 3]."""
    basis = torch.zeros(q.shape[0], 3, device=q.device)
    basis[:, axis] = 1
    return quat_rotate(q, basis)


def quat_from_angle_axis(angle: Tensor, axis: Tensor) -> Tensor:
    """Return quaternions [..., 4] of rotations by angles [...] about axes [..., 3]."""
    half = (angle / 2).unsqueeze(-1)
    return normalize(torch.cat([normalize(axis) * half.sin(), half.cos()], dim=-1))


def quat_from_euler_xyz(roll: Tensor, pitch: Tensor, yaw: Tensor) -> Tensor:
    """Return quaternions of rotations about x, then y, then z of the fixed frame."""
    cr, sr = torch.cos(roll * 0.5), torch.sin(roll * 0.5)
    cp, sp = torch.cos(pitch * 0.5), torch.sin(pitch * 0.5)
    cy, sy = torch.cos(yaw * 0.5), torch.sin(yaw * 0.5)
    x = sr * cp * cy - cr * sp * sy
    y = cr * sp * cy + sr * cp * sy
    z = cr * cp * sy - sr * sp * cy
    return torch.stack([x, y, z, cr * cp * cy + sr * sp * sy], dim=-1)


def get_euler_xyz(q: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    """Return roll, pitch and yaw [N] of quaternions [N, 4], each from 0 to 2 pi."""
    x, y, z, w = q[:, 0], q[:, 1], q[:, 2], q[:, 3]
    roll = torch.atan2(2.0 * (w * x + y * z), 1.0 - 2.0 * (x * x + y * y))
    pitch = torch.asin(torch.clamp(2.0 * (w * y - z * x), -1.0, 1.0))
    yaw = torch.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
    full = 6.283185307179586
    return roll % full, pitch % full, yaw % full


def normalize_angle(x: Tensor) -> Tensor:
    """Return angles from -pi to pi."""
    return torch.atan2(torch.sin(x), torch.cos(x))


def tf_inverse(q: Tensor, t: Tensor) -> Tuple[Tensor, Tensor]:
    """Return the inverse of transforms: rotation and translation."""
    back = quat_conjugate(q)
    return back, -quat_apply(back, t)


def tf_apply(q: Tensor, t: Tensor, v: Tensor) -> Tensor:
    return quat_apply(q, v) + t


def tf_vector(q: Tensor, v: Tensor) -> Tensor:
    return quat_apply(q, v)


def tf_combine(q1: Tensor, t1: Tensor, q2: Tensor, t2: Tensor) -> Tuple[Tensor, Tensor]:
    """Return the transform that applies the second one, then the first."""
    return quat_mul(q1, q2), quat_apply(q1, t2) + t1


def get_basis_vector(q: Tensor, v: Tensor) -> Tensor:
    return quat_rotate(q, v)


def get_axis_params(value, axis_idx, x_value=0.0, dtype=float, n_dims=3):
    """Return a list of n_dims numbers: ``value`` at axis_idx, ``x_value`` first, zero elsewhere."""
    params = np.zeros(n_dims, dtype=dtype)
    params[0] = x_value
    params[axis_idx] = value
    return list(params)


def torch_rand_float(lower: float, upper: float, shape: Tuple[int, int], device: str) -> Tensor:
    """Return uniform random numbers."""
    return (upper - lower) * torch.rand(shape[0], shape[1], device=device) + lower


def torch_random_dir_2(shape: Tuple[int, int], device: str) -> Tensor:
    """Return random unit vectors of the plane [..., 2]."""
    angle = torch_rand_float(-3.141592653589793, 3.141592653589793, shape, device).squeeze(-1)
    return torch.stack([torch.cos(angle), torch.sin(angle)], dim=-1)


def copysign(a: float, b: Tensor) -> Tensor:
    """Return the number a with the signs of b."""
    return torch.copysign(torch.full_like(b, a), b)


def tensor_clamp(t: Tensor, min_t: Tensor, max_t: Tensor) -> Tensor:
    return torch.max(torch.min(t, max_t), min_t)


def scale(x: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """Return numbers from -1 to 1 as numbers from lower to upper."""
    return lower + (x + 1.0) * (upper - lower) / 2


def unscale(x: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """Return numbers from lower to upper as numbers from -1 to 1."""
    return (2.0 * x - upper - lower) / (upper - lower)


def saturate(x: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    return torch.max(torch.min(x, upper), lower)


def scale_transform(x: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """Return numbers from lower to upper as numbers from -1 to 1."""
    return unscale(x, lower, upper)


def unscale_transform(x: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """Return numbers from -1 to 1 as numbers from lower to upper."""
    return scale(x, lower, upper)


def unscale_np(x, lower, upper):
    return (2.0 * x - upper - lower) / (upper - lower)
