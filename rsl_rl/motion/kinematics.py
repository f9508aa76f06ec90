"""Poses of a robot's bodies from the pose of its trunk and its joint angles, for many frames at once, and clips."""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
from __future__ import annotations

import os
from typing import Dict, List, NamedTuple, Sequence, Tuple, Union

import mujoco
import torch
from torch import Tensor

from rsl_rl.motion.clip import Clip
from rsl_rl.motion.rotations import conjugate, continuous, from_matrix, multiply, rotate, to_vector, turn_between
from rsl_rl.robots import Robot
from rsl_rl.sim.kinematics import cross_matrix, rotation_matrix
from rsl_rl.utils.mujoco_model import load_model
from rsl_rl.utils.tensors import from_yaw


class BodyFrame(NamedTuple):
    """Pose of a body in the trunk's frame for S poses of the joints."""

    rotation: Tensor  # [S, 3, 3] body to trunk
    position: Tensor  # [S, 3] of its origin
    joints: List[Tuple[int, Tensor, Tensor]]  # column, axis [S, 3] and anchor [S, 3] of each joint that moves it


class BodyFrames:
    """Frames of bodies for joint angles [S, J] float64, each computed when it is first asked for."""

    def __init__(self, model: mujoco.MjModel, joints: Sequence[int], joint_pos: Tensor):
        self._model, self._joint_pos = model, joint_pos
        self._column = {joint: i for i, joint in enumerate(joints)}
        identity = torch.eye(3, dtype=torch.float64).expand(len(joint_pos), 3, 3)
        origin = torch.zeros(len(joint_pos), 3, dtype=torch.float64)
        self._frames: Dict[int, BodyFrame] = {int(model.jnt_bodyid[0]): BodyFrame(identity, origin, [])}

    def __call__(self, body: int) -> BodyFrame:
        """Return the frame of a body by its number in the model."""
        if body in self._frames:
            return self._frames[body]
        model, count = self._model, len(self._joint_pos)
        rotation, position, joints = self(int(model.body_parentid[body]))
        position = position + rotation @ torch.as_tensor(model.body_pos[body])
        rotation = rotation @ rotation_matrix(torch.as_tensor(model.body_quat[body]))
        for joint in range(model.body_jntadr[body], model.body_jntadr[body] + model.body_jntnum[body]):
            axis = torch.as_tensor(model.jnt_axis[joint])
            anchor = position + rotation @ torch.as_tensor(model.jnt_pos[joint])
            if joint in self._column:
                angle = self._joint_pos[:, self._column[joint]] - float(model.qpos0[model.jnt_qposadr[joint]])
                joints = [*joints, (self._column[joint], rotation @ axis, anchor)]
                rotation = rotation @ _rotation(axis.expand(count, 3), angle)
            position = anchor - rotation @ torch.as_tensor(model.jnt_pos[joint])
        self._frames[body] = BodyFrame(rotation, position, joints)
        return self._frames[body]


def _rotation(axis: Tensor, angle: Tensor) -> Tensor:
    """Return the rotations [S, 3, 3] about unit axes [S, 3] by angles [S]."""
    cross = cross_matrix(axis)
    sine, cosine = angle.sin().view(-1, 1, 1), angle.cos().view(-1, 1, 1)
    return torch.eye(3, dtype=axis.dtype) + sine * cross + (1 - cosine) * (cross @ cross)


class Kinematics:
    """The bodies and joints of a robot's model: a free joint first, then hinges with a position actuator each.

    In a model without actuators the joints are all hinges.
    """

    def __init__(self, source: Union[Robot, str, os.PathLike]):
        path = source.model_path if isinstance(source, Robot) else source
        self.model = load_model(path)
        model = self.model
        free, hinge = mujoco.mjtJoint.mjJNT_FREE, mujoco.mjtJoint.mjJNT_HINGE
        self.joints = [int(model.actuator_trnid[i, 0]) for i in range(model.nu)]  # numbers in the model
        self.joints = self.joints or [i for i in range(model.njnt) if model.jnt_type[i] == hinge]
        if not self.joints or model.jnt_type[0] != free or any(model.jnt_type[i] != hinge for i in self.joints):
            raise ValueError(
                f"{path} has no free joint before the others, or joints that are not hinges; prepare it with "
                "`rsl-rl adopt`"
            )
        self.joint_names = tuple(model.joint(joint).name for joint in self.joints)
        trunk = int(model.jnt_bodyid[0])
        self.bodies = [i for i in range(1, model.nbody) if model.body_rootid[i] == trunk]  # numbers in the model
        self.link_names = tuple(model.body(i).name for i in self.bodies)
        numbers = {body: i for i, body in enumerate(self.bodies)}
        self.parents = [numbers.get(int(model.body_parentid[body]), -1) for body in self.bodies]
        """Index of the parent of each link, -1 for the trunk."""
        self.limits = torch.as_tensor(model.jnt_range[self.joints])
        """Joint limits [J, 2] rad, float64."""

    def require(self, clip: Clip) -> None:
        """Raise a ValueError if a clip does not have the joints and bodies of this robot."""
        if (clip.joint_names, clip.link_names) != (self.joint_names, self.link_names):
            raise ValueError(
                f"the clip '{clip.name}' is of another robot: it has the joints {', '.join(clip.joint_names)}, and the "
                f"robot {', '.join(self.joint_names)}; give the robot of the clip, or use rsl-rl motion retarget"
            )

    def links(self, joint_pos: Tensor) -> Tuple[Tensor, Tensor]:
        """Return positions [S, L, 3] and rotations [S, L, 3, 3] of the links in the trunk's frame for angles [S, J]."""
        frames = BodyFrames(self.model, self.joints, joint_pos.double())
        own = [frames(body) for body in self.bodies]
        return torch.stack([x.position for x in own], dim=1), torch.stack([x.rotation for x in own], dim=1)

    def poses(self, root_pos: Tensor, root_quat: Tensor, joint_pos: Tensor) -> Tuple[Tensor, Tensor]:
        """Return positions [S, L, 3] and quaternions [S, L, 4] of the links in the world, float64."""
        position, rotation = self.links(joint_pos)
        root_quat = root_quat.double().unsqueeze(1)
        position = root_pos.double().unsqueeze(1) + rotate(root_quat, position)
        quat = from_matrix(rotation)
        return position, multiply(root_quat.expand_as(quat), quat)


def build_clip(
    kinematics: Kinematics,
    root_pos: Tensor,  # [F, 3] m, world
    root_quat: Tensor,  # [F, 4] w x y z
    joint_pos: Tensor,  # [F, J] rad, in the order of the model
    fps: float,
    name: str,
    loop: bool = False,
) -> Clip:
    """Return a clip with the poses of all bodies by forward kinematics and velocities by central differences.

    A clip that loops ends with its first frame, moved over the floor and turned about the vertical. The differences at
    the ends of other clips are one-sided, of second order.
    """
    if joint_pos.shape[1] != len(kinematics.joint_names):
        raise ValueError(
            f"the clip '{name}' has {joint_pos.shape[1]} joints, and the robot {len(kinematics.joint_names)}"
        )
    root_quat = torch.nn.functional.normalize(root_quat.double(), dim=1)
    joint_pos, (pos, quat) = joint_pos.double(), kinematics.poses(root_pos, root_quat, joint_pos)
    quat = continuous(quat)
    turn = turn_between(quat[0, 0], quat[-1, 0])
    return Clip(
        name=name,
        fps=float(fps),
        joint_names=kinematics.joint_names,
        link_names=kinematics.link_names,
        joint_pos=joint_pos.float(),
        joint_vel=_at_frames(joint_pos.diff(dim=0) * fps, torch.zeros_like(turn), loop).float(),
        link_pos=pos.float(),
        link_quat=quat.float(),
        link_vel=_at_frames(pos.diff(dim=0) * fps, turn, loop).float(),
        link_ang_vel=_at_frames(to_vector(multiply(quat[1:], conjugate(quat[:-1]))) * fps, turn, loop).float(),
        loop=loop,
    )


def _at_frames(rates: Tensor, turn: Tensor, loop: bool) -> Tensor:
    """Return rates at F frames from those between frames [F - 1, ...]; a loop turns by ``turn`` in a round.

    Rates with a last dimension of 3 and three dimensions are vectors in the world, which turn with the loop.
    """
    if len(rates) == 1:
        return torch.cat((rates, rates))
    middle = (rates[1:] + rates[:-1]) / 2
    if not loop:
        return torch.cat(((1.5 * rates[0] - 0.5 * rates[1])[None], middle, (1.5 * rates[-1] - 0.5 * rates[-2])[None]))
    forward = from_yaw(turn)
    before, after = rates[-1], rates[0]
    if rates.dim() == 3:
        before, after = rotate(conjugate(forward), before), rotate(forward, after)
    return torch.cat((((rates[0] + before) / 2)[None], middle, ((rates[-1] + after) / 2)[None]))
