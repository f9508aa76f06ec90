"""Forward kinematics: position, velocity and axes of links from the state of the trunk and the joints."""

from __future__ import annotations

from typing import List, NamedTuple, Optional, Sequence

import torch
from torch import Tensor

from rsl_rl.sim.base import LinkStates, RobotPoseVel


class Step(NamedTuple):
    """A step of a chain of links: a move in the frame reached so far, a constant rotation, and a hinge."""

    offset: Tensor  # [3]
    turn: Optional[Tensor] = None  # [3, 3]; None: no rotation
    axis: Optional[Tensor] = None  # [3] of the hinge; None: no hinge
    joint: int = 0  # column of the hinge's angle


class LinkKinematics:
    """Position, velocity and rotation of L links. A chain of steps leads from the trunk to each."""

    def __init__(self, chains: Sequence[Sequence[Step]], device: torch.device):
        levels = max((len(chain) for chain in chains), default=0)
        offset, axis = torch.zeros(levels, len(chains), 3), torch.zeros(levels, len(chains), 3)
        fixed = torch.eye(3).repeat(levels, len(chains), 1, 1)
        joints = torch.zeros(levels, len(chains), dtype=torch.long)
        for link, chain in enumerate(chains):
            for level, step in enumerate(chain):
                offset[level, link] = step.offset
                fixed[level, link] = fixed[level, link] if step.turn is None else step.turn
                if step.axis is not None:  # a zero axis turns nothing, whatever the angle
                    axis[level, link], joints[level, link] = step.axis, step.joint
        cross = cross_matrix(axis)  # [levels, L, 3, 3]

        def weights(matrices: Tensor) -> List[Optional[Tensor]]:
            """Return each level as [..., L, 1, 1] for multiplications with [L, N, 3]; None if all of it is zero."""
            return [level.to(device).movedim(0, -1)[..., None, None] if level.any() else None for level in matrices]

        eye = torch.eye(3)
        self._offsets, self._axes = weights(offset), weights(axis)
        self._fixed, self._cross, self._cross2 = weights(fixed - eye), weights(cross), weights(cross @ cross)
        self._joints, self._num_links = joints.to(device), len(chains)

    def __call__(self, pose_vel: RobotPoseVel) -> LinkStates:
        # Links come first, so that what is constant for a link multiplies the rotations of all robots at once.
        # A rotation is its three columns, [L, N, 3] each: products of matrices of 3 x 3 are slow on a CPU.
        root_pos, root_quat, root_lin_vel, root_ang_vel, joint_pos, joint_vel = pose_vel
        root = rotation_matrix(root_quat)  # [N, 3, 3]
        turn = root.unbind(dim=-1)  # link to world
        pos, vel, spin = root_pos, root_lin_vel, (root @ root_ang_vel.unsqueeze(-1)).squeeze(-1)  # spin in the world
        shape = (self._num_links, *root_pos.shape)
        pos, vel, spin, *turn = (x.expand(shape) for x in (pos, vel, spin, *turn))
        angles, rates = joint_pos.t(), joint_vel.t()
        for offset, fixed, axis, cross, cross2, joints in zip(
            self._offsets, self._fixed, self._axes, self._cross, self._cross2, self._joints
        ):
            if offset is not None:
                arm = _mixed(turn, offset)
                pos, vel = pos + arm, vel + torch.linalg.cross(spin, arm)
            if fixed is not None:
                turn = [column + _mixed(turn, fixed[:, j]) for j, column in enumerate(turn)]
            if axis is not None and cross is not None and cross2 is not None:
                spin = spin + _mixed(turn, axis) * rates[joints].unsqueeze(-1)
                angle = angles[joints].unsqueeze(-1)  # [L, N, 1]
                change = angle.sin() * cross + (1 - angle.cos()) * cross2  # [3, 3, L, N, 1], of the rotation
                turn = [column + _mixed(turn, change[:, j]) for j, column in enumerate(turn)]
        return LinkStates(*(x.transpose(0, 1) for x in (pos, vel, torch.stack(turn, dim=-1), spin)))


def _mixed(columns: Sequence[Tensor], weights: Tensor) -> Tensor:
    """Return the sum of three columns [L, N, 3], each times its weight [L, N or 1, 1]."""
    first, second, third = columns
    return torch.addcmul(torch.addcmul(first * weights[0], second, weights[1]), third, weights[2])


def cross_matrix(vector: Tensor) -> Tensor:
    """Return the matrices [..., 3, 3] of the cross product ``vector x``."""
    x, y, z = vector.unbind(-1)
    zero = torch.zeros_like(x)
    return torch.stack((zero, -z, y, z, zero, -x, -y, x, zero), dim=-1).unflatten(-1, (3, 3))


def rotation_matrix(quat: Tensor) -> Tensor:
    """Return the rotation matrices [..., 3, 3] of unit quaternions [..., 4], w x y z."""
    turn = cross_matrix(quat[..., 1:])
    return torch.eye(3, device=quat.device) + 2 * quat[..., :1, None] * turn + 2 * turn @ turn
