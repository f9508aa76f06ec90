"""Kinematics and inverse dynamics of a robot's legs, for many poses at once."""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
from __future__ import annotations

from typing import Any, NamedTuple, Optional, Sequence, Tuple

import mujoco
import numpy as np
import torch
from torch import Tensor

from rsl_rl.motion.kinematics import BodyFrames
from rsl_rl.robots import Robot
from rsl_rl.sim.kinematics import rotation_matrix
from rsl_rl.utils.mujoco_model import load_model

_ITERATIONS = 20
"""Most steps of the inverse kinematics of a pose; it ends where the pose changes no more."""

_STEP, _DAMPING, _REST = 0.5, 1e-6, 1e-5
"""Largest change of a joint in an iteration [rad]; damping of the least squares; weight of the default pose in them."""


class FeetPose(NamedTuple):
    """Poses of F feet in the trunk's frame, with the derivative by the joints."""

    position: Tensor  # [S, F, 3]
    rotation: Tensor  # [S, F, 3, 3] from the foot's body into the trunk's frame
    jacobian: Tensor  # [S, F, 6, J] of position and rotation


class Loads(NamedTuple):
    """Result of the inverse dynamics."""

    torque: Tensor  # [S, J] [N m]
    force: Tensor  # [S, F, 3] of the floor on the feet [N], in the frame of the heading
    rest: Tensor  # [S, 6] acceleration of the trunk that the feet cannot cause [m/s^2, rad/s^2]


class Legs:
    """The joints of a robot and their feet. Poses are float64; S is any number of them."""

    def __init__(self, robot: Robot, joint_names: Sequence[str], foot_names: Sequence[str]):
        self.model = load_model(robot.model_path)
        self.model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_LIMIT)
        self._joints = [self.model.joint(name).id for name in joint_names]
        self.default = torch.tensor(robot.default_joint_pos, dtype=torch.float64)  # [J]
        self.limits = torch.as_tensor(self.model.jnt_range[self._joints])  # [J, 2]
        data = mujoco.MjData(self.model)
        mujoco.mj_forward(self.model, data)
        self._bodies = [_body_of_sensor(self.model, f"{name}_pos") for name in foot_names]
        self._points = [
            data.xmat[body].reshape(3, 3).T @ (data.sensor(f"{name}_pos").data - data.xpos[body])
            for name, body in zip(foot_names, self._bodies)
        ]
        self.has_soles = all(
            mujoco.mj_name2id(self.model, mujoco.mjtObj.mjOBJ_SENSOR, f"{name}_up") >= 0 for name in foot_names
        )
        self._data = data
        self._axes = [  # z axis of the soles, in the frames of their bodies
            torch.as_tensor(data.xmat[body].reshape(3, 3).T @ data.sensor(f"{name}_up").data)
            for name, body in zip(foot_names, self._bodies if self.has_soles else ())
        ]
        pose = self.feet(self.default.unsqueeze(0))
        self.default_position, self.default_rotation = pose.position[0], pose.rotation[0]  # [F, 3], [F, 3, 3]
        self.length = float(-self.default_position[:, 2].min())  # [m] of the standing legs
        self.radius, self.foot_names = robot.foot_radius, tuple(foot_names)

    def feet(self, joint_pos: Tensor) -> FeetPose:
        """Return the poses of the feet for joint angles [S, J]."""
        frames, count = BodyFrames(self.model, self._joints, joint_pos), len(joint_pos)
        positions, rotations = [], []
        jacobian = torch.zeros(count, len(self._bodies), 6, joint_pos.shape[1], dtype=torch.float64)
        for i, (body, point) in enumerate(zip(self._bodies, self._points)):
            rotation, origin, joints = frames(body)
            positions.append(origin + rotation @ torch.as_tensor(point))
            rotations.append(rotation)
            for j, axis, anchor in joints:
                jacobian[:, i, :3, j] = torch.linalg.cross(axis, positions[-1] - anchor)
                jacobian[:, i, 3:, j] = axis
        return FeetPose(torch.stack(positions, dim=1), torch.stack(rotations, dim=1), jacobian)

    def up(self, rotation: Tensor) -> Tensor:
        """Return the z axes [S, F, 3] of feet with rotations [S, F, 3, 3]; [S, 0, 3] without soles."""
        if not self._axes:
            return rotation[:, :0, :, 0]
        return (rotation @ torch.stack(self._axes).unsqueeze(2))[..., 0]

    def solve(
        self, position: Tensor, rotation: Tensor, start: Optional[Tensor] = None, turning: float = 0.1
    ) -> Tuple[Tensor, Tensor]:
        """Return joint angles [S, J] that bring the feet to positions [S, F, 3] and rotations [S, F, 3, 3] in the
        trunk's frame, and the largest error of a position of each pose [S] [m].

        Only feet with soles are turned, and only as far as their positions allow. Angles that do not matter stay as in
        ``start`` [S, J], the default pose unless it is given. A turn by 1 rad counts as much as a way of ``turning``
        times the length of the legs.
        """
        rest = self.default.expand(len(position), -1) if start is None else start
        joint_pos = rest.clone()
        per_turn = turning * self.length if self.has_soles else 0.0  # [m/rad]
        weight = torch.tensor([1.0] * 3 + [per_turn] * 3, dtype=torch.float64).view(1, 1, 6, 1)
        identity = torch.eye(joint_pos.shape[1], dtype=torch.float64)
        low, high = self.limits.unbind(dim=1)
        open_rows = torch.arange(len(joint_pos))  # that still move
        for _ in range(_ITERATIONS):
            own = joint_pos[open_rows]
            feet = self.feet(own)
            apart = _difference(rotation[open_rows], feet.rotation)
            error = torch.cat((position[open_rows] - feet.position, apart), dim=2).unsqueeze(3)
            jacobian = (feet.jacobian * weight).flatten(1, 2)
            normal = jacobian.mT @ jacobian + (_DAMPING + _REST * self.length**2) * identity
            pull = _REST * self.length**2 * (rest[open_rows] - own).unsqueeze(2)
            change = torch.linalg.solve(normal, jacobian.mT @ (error * weight).flatten(1, 2) + pull)[:, :, 0]
            joint_pos[open_rows] = (own + change.clamp(-_STEP, _STEP)).clamp(low, high)
            open_rows = open_rows[(joint_pos[open_rows] - own).abs().amax(dim=1) > 1e-4]
            if not len(open_rows):
                break
        return joint_pos, (self.feet(joint_pos).position - position).norm(dim=2).amax(dim=1)

    def loads(
        self,
        height: Tensor,  # [S] of the trunk [m]
        quat: Tensor,  # [S, 4] of the trunk in the frame of its heading
        velocity: Tensor,  # [S, 3] forward, left [m/s], yaw rate [rad/s]
        joints: Sequence[Tensor],  # angle, velocity, acceleration, each [S, J]
        share: Tensor,  # [S, F] in [0, 1], how much of the load each foot may carry; 0 in the air
    ) -> Loads:
        """Return the joint torques and the forces on the feet of a motion at constant velocity.

        The forces are the smallest that carry the trunk: those of feet with soles come with torques.
        """
        model, data = self.model, self._data
        dofs = [int(model.jnt_dofadr[joint]) for joint in self._joints]
        angles = [int(model.jnt_qposadr[joint]) for joint in self._joints]
        rows = 6 if self.has_soles else 3
        feet, count = len(self._bodies), len(height)
        needed = np.zeros((count, model.nv))
        root = np.zeros((count, 6, feet * rows))
        legs = np.zeros((count, len(dofs), feet * rows))
        inertia = np.zeros((count, 6, 6))
        full = np.zeros((model.nv, model.nv))
        jacobian, turning = np.zeros((3, model.nv)), np.zeros((3, model.nv))
        pose, speed, tilt = velocity.numpy(), [x.numpy() for x in joints], quat.numpy()
        to_world = rotation_matrix(quat).numpy()
        for i in range(count):
            data.qpos[:] = model.qpos0
            data.qpos[2], data.qpos[3:7], data.qpos[angles] = float(height[i]), tilt[i], speed[0][i]
            vx, vy, turn = pose[i]
            data.qvel[:] = 0.0
            data.qvel[:2], data.qvel[3:6] = (vx, vy), to_world[i].T @ (0.0, 0.0, turn)
            data.qvel[dofs] = speed[1][i]
            data.qacc[:] = 0.0
            data.qacc[:2], data.qacc[dofs] = (-turn * vy, turn * vx), speed[2][i]
            mujoco.mj_inverse(model, data)
            needed[i] = data.qfrc_inverse
            mujoco.mj_fullM(model, data, full)
            inertia[i] = full[:6, :6]
            for foot, body in enumerate(self._bodies):
                point = data.xpos[body] + data.xmat[body].reshape(3, 3) @ self._points[foot]
                mujoco.mj_jac(model, data, jacobian, turning, point, body)
                both = np.concatenate((jacobian, turning))[:rows]
                columns = slice(foot * rows, (foot + 1) * rows)
                root[i, :, columns], legs[i, :, columns] = both[:, :6].T, both[:, dofs].T
        scale = torch.as_tensor(root) * share.repeat_interleave(rows, dim=1).unsqueeze(1)
        wanted = torch.as_tensor(needed[:, :6]).unsqueeze(2)
        size = float(model.body_mass.sum()) * 9.81  # so that the damping has no unit
        forces = scale.mT @ torch.linalg.solve(
            scale @ scale.mT + 1e-6 * torch.eye(6, dtype=torch.float64), wanted / size
        )
        forces = forces * size * share.repeat_interleave(rows, dim=1).unsqueeze(2)
        torque = torch.as_tensor(needed[:, dofs]) - (torch.as_tensor(legs) @ forces)[:, :, 0]
        rest = torch.linalg.solve(torch.as_tensor(inertia), wanted - torch.as_tensor(root) @ forces)
        return Loads(torque, forces.view(count, feet, rows)[:, :, :3], rest[:, :, 0])


def legs_of(robot: Robot) -> Legs:
    """Return the legs of a robot with its joints and feet in the model's order; one without feet is a ValueError."""
    require_feet(robot)
    model = load_model(robot.model_path)
    sensors = [model.sensor(i).name for i in range(model.nsensor)]
    joints = [model.joint(model.actuator_trnid[i, 0]).name for i in range(model.nu)]
    return Legs(robot, joints, [name[: -len("_pos")] for name in sensors if name.endswith("_pos")])


def require_feet(robot: Robot) -> None:
    """Raise a ValueError if the model of a robot has no feet."""
    model = load_model(robot.model_path)
    if not any(model.sensor(i).name.endswith("_pos") for i in range(model.nsensor)):
        raise ValueError(
            f"{robot.model_path} has no foot, so its steps cannot be computed; add a sensor <foot>_pos (framepos) of "
            "each foot"
        )


def _body_of_sensor(model: Any, name: str) -> int:
    """Return the body whose frame, site or geom a frame sensor reports."""
    sensor = model.sensor(name)
    kind, index = int(sensor.objtype[0]), int(sensor.objid[0])
    if kind == int(mujoco.mjtObj.mjOBJ_SITE):
        return int(model.site_bodyid[index])
    return int(model.geom_bodyid[index]) if kind == int(mujoco.mjtObj.mjOBJ_GEOM) else index


def _difference(wanted: Tensor, actual: Tensor) -> Tensor:
    """Return the rotation vectors [..., 3] from rotations to others [..., 3, 3], for small differences."""
    return torch.linalg.cross(actual.mT, wanted.mT, dim=-1).sum(dim=-2) / 2


def yaw_matrix(angle: Tensor) -> Tensor:
    """Return the rotations about the vertical by angles [...] as matrices [..., 3, 3]."""
    c, s, zero, one = angle.cos(), angle.sin(), torch.zeros_like(angle), torch.ones_like(angle)
    return torch.stack((c, -s, zero, s, c, zero, zero, zero, one), dim=-1).view(*angle.shape, 3, 3)
