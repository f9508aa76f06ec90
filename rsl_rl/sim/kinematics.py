"""Forward kinematics: position, velocity and axes of links from the state of the trunk and the joints."""

from __future__ import annotations

from typing import List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from rsl_rl.sim.base import RobotPoseVel


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
        self._offset, self._axis, self._joints = offset.to(device), axis.to(device), joints.to(device)
        self._fixed: List[Optional[Tensor]] = [
            None if torch.equal(level, torch.eye(3).expand_as(level)) else level.to(device) for level in fixed
        ]
        self._cross = cross_matrix(self._axis)  # [levels, L, 3, 3]
        self._cross2 = self._cross @ self._cross
        self._eye = torch.eye(3, device=device)
        self._shape = (len(chains), 3)

    def __call__(self, pose_vel: RobotPoseVel) -> Tuple[Tensor, Tensor, Tensor]:
        """Return position and velocity of the links' origins, [N, L, 3] in world axes, and the rotations from link to
        world, [N, L, 3, 3]."""
        root_pos, root_quat, root_lin_vel, root_ang_vel, joint_pos, joint_vel = pose_vel
        turn = rotation_matrix(root_quat).unsqueeze(1)  # [N, 1 or L, 3, 3], link to world
        pos, vel = root_pos.unsqueeze(1), root_lin_vel.unsqueeze(1)
        spin = (turn @ root_ang_vel[:, None, :, None]).squeeze(-1)  # [N, 1 or L, 3], world
        for level, joints in enumerate(self._joints):
            arm = (turn @ self._offset[level].unsqueeze(-1)).squeeze(-1)  # [N, L, 3]
            pos, vel = pos + arm, vel + torch.linalg.cross(spin.expand_as(arm), arm)
            fixed = self._fixed[level]
            turn = turn if fixed is None else turn @ fixed
            axis = (turn @ self._axis[level].unsqueeze(-1)).squeeze(-1)
            spin = spin + axis * joint_vel[:, joints].unsqueeze(-1)
            angle = joint_pos[:, joints][..., None, None]
            turn = turn @ (self._eye + angle.sin() * self._cross[level] + (1 - angle.cos()) * self._cross2[level])
        shape = (len(root_pos), *self._shape)
        return pos.expand(shape), vel.expand(shape), turn.expand(*shape, 3)


def cross_matrix(vector: Tensor) -> Tensor:
    """Return the matrices [..., 3, 3] of the cross product ``vector x``."""
    x, y, z = vector.unbind(-1)
    zero = torch.zeros_like(x)
    return torch.stack((zero, -z, y, z, zero, -x, -y, x, zero), dim=-1).unflatten(-1, (3, 3))


def rotation_matrix(quat: Tensor) -> Tensor:
    """Return the rotation matrices [..., 3, 3] of unit quaternions [..., 4], w x y z."""
    turn = cross_matrix(quat[..., 1:])
    return torch.eye(3, device=quat.device) + 2 * quat[..., :1, None] * turn + 2 * turn @ turn
