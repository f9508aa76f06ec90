"""Rotations as unit quaternions [..., 4], w x y z, and as matrices and vectors, in any floating-point type."""

from __future__ import annotations

import torch
from torch import Tensor


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """Return the rotations [..., 4] that turn by ``b`` first and then by ``a``."""
    aw, ax, ay, az = a.unbind(-1)
    bw, bx, by, bz = b.unbind(-1)
    return torch.stack(
        (
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ),
        dim=-1,
    )


def conjugate(quat: Tensor) -> Tensor:
    """Return the inverse rotations [..., 4]."""
    return torch.cat((quat[..., :1], -quat[..., 1:]), dim=-1)


def rotate(quat: Tensor, vector: Tensor) -> Tensor:
    """Turn vectors [..., 3] from the body frame into the world frame."""
    w, axis = quat[..., :1], quat[..., 1:]
    axis, vector = torch.broadcast_tensors(axis, vector)
    twice = 2 * torch.linalg.cross(axis, vector, dim=-1)
    return vector + w * twice + torch.linalg.cross(axis, twice, dim=-1)


def from_vector(vector: Tensor) -> Tensor:
    """Return the rotations [..., 4] about vectors [..., 3] by their length [rad]."""
    half = vector.norm(dim=-1, keepdim=True) / 2
    return torch.cat((half.cos(), torch.sinc(half / torch.pi) * vector / 2), dim=-1)


def to_vector(quat: Tensor) -> Tensor:
    """Return the rotation vectors [..., 3] [rad] of the shorter way round, at most pi long."""
    quat = torch.where(quat[..., :1] < 0, -quat, quat)
    sine = quat[..., 1:].norm(dim=-1, keepdim=True)
    angle = 2 * torch.atan2(sine, quat[..., :1])
    return quat[..., 1:] * torch.where(sine > 1e-9, angle / sine.clamp(min=1e-9), torch.full_like(sine, 2.0))


def from_matrix(matrix: Tensor) -> Tensor:
    """Return the quaternions [..., 4] of rotation matrices [..., 3, 3], with w >= 0.

    Takes the largest of the four squared components first (S. W. Shepperd, Quaternion from rotation matrix, 1978).
    """
    m = matrix
    x, y, z = m[..., 0, 0], m[..., 1, 1], m[..., 2, 2]
    squares = torch.stack((1 + x + y + z, 1 + x - y - z, 1 - x + y - z, 1 - x - y + z), dim=-1)  # 4 q_i^2
    wx, wy, wz = m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1]
    xy, xz, yz = m[..., 0, 1] + m[..., 1, 0], m[..., 0, 2] + m[..., 2, 0], m[..., 1, 2] + m[..., 2, 1]
    products = torch.stack(  # 4 q_i q_j
        (
            torch.stack((squares[..., 0], wx, wy, wz), dim=-1),
            torch.stack((wx, squares[..., 1], xy, xz), dim=-1),
            torch.stack((wy, xy, squares[..., 2], yz), dim=-1),
            torch.stack((wz, xz, yz, squares[..., 3]), dim=-1),
        ),
        dim=-2,
    )
    row = squares.argmax(dim=-1)[..., None, None].expand(*squares.shape[:-1], 1, 4)
    quat = torch.nn.functional.normalize(products.gather(-2, row).squeeze(-2), dim=-1)
    return torch.where(quat[..., :1] < 0, -quat, quat)


def slerp(a: Tensor, b: Tensor, share: Tensor) -> Tensor:
    """Interpolate from ``a`` to ``b`` [..., 4] at constant angular velocity, the shorter way round.

    ``share`` [...] is 0 at ``a`` and 1 at ``b``; below 2e-3 rad the interpolation is linear.
    """
    dot = (a * b).sum(dim=-1, keepdim=True)
    b, dot = torch.where(dot < 0, -b, b), dot.abs().clamp(max=1.0)
    half, share = dot.acos(), share.unsqueeze(-1)
    sine = half.sin()
    near = half < 1e-3
    safe = torch.where(near, torch.ones_like(sine), sine)
    first = torch.where(near, 1 - share, ((1 - share) * half).sin() / safe)
    second = torch.where(near, share, (share * half).sin() / safe)
    return torch.nn.functional.normalize(first * a + second * b, dim=-1)


def continuous(quat: Tensor) -> Tensor:
    """Return quaternions [F, ..., 4] with the sign of each frame chosen nearest to the frame before."""
    signs = torch.where((quat[1:] * quat[:-1]).sum(dim=-1) < 0, -1.0, 1.0).to(quat)
    return torch.cat((quat[:1], quat[1:] * signs.cumprod(dim=0).unsqueeze(-1)))


def turned(vector: Tensor, angle: Tensor) -> Tensor:
    """Turn horizontal vectors [..., 2] by angles [...] [rad]."""
    c, s = angle.cos(), angle.sin()
    x, y = vector.unbind(-1)
    return torch.stack((c * x - s * y, s * x + c * y), dim=-1)


def turn_between(a: Tensor, b: Tensor) -> Tensor:
    """Return the angle about z [...] of the rotation from ``a`` to ``b`` [..., 4], in (-pi, pi].

    It is that of the part of ``b a^-1`` about z, which is defined unless that turns by pi about a horizontal axis.
    """
    apart = multiply(b, conjugate(a))
    angle = 2 * torch.atan2(apart[..., 3], apart[..., 0])
    return torch.atan2(angle.sin(), angle.cos())
