"""Terms of tasks with reference motions: observations, rewards, terminations and metrics.

The anchor is the trunk. An aligned reference is moved horizontally and turned about the vertical so that its anchor has
the place and the heading of the robot's; heights stay. Rewards are exp(-error^2 / sigma^2) of the root mean square
error of links, as in BeyondMimic (Liao et al. 2025, https://arxiv.org/abs/2508.08241); links may be feet.
"""

from __future__ import annotations

import math
from typing import Tuple

import torch
from torch import Tensor

from rsl_rl.config.mdp import NotNegative, Positive
from rsl_rl.motion.rotations import conjugate, multiply, to_vector, turn_between
from rsl_rl.sim.base import LinkStates
from rsl_rl.sim.kinematics import rotation_matrix
from rsl_rl.tasks.mdp.motion import Reference
from rsl_rl.tasks.robot_state import RobotState
from rsl_rl.utils.tensors import rotate_inverse

Names = Tuple[str, ...]


def links_of(state: RobotState, names: Names) -> Tuple[LinkStates, LinkStates]:
    """Return the states of links, and those that they are to have."""
    return state.links(names), state.part(Reference).links(names)


def _turn_errors(a: Tensor, b: Tensor) -> Tensor:
    """Return the angles [...] between rotation matrices [..., 3, 3] [rad]; |A - B| = 2 sqrt(2) sin(angle / 2)."""
    sine = (a - b).flatten(-2).norm(dim=-1) / (2 * math.sqrt(2))
    return 2 * sine.clamp(max=1.0).asin()


def _anchor_turn(state: RobotState) -> Tensor:
    """Return the rotations from the robot's trunk to that of the reference [N, 4], in the robot's base frame."""
    return multiply(conjugate(state.sim.root_quat), state.part(Reference).pose_vel.root_quat)


def aligned(state: RobotState, names: Names) -> LinkStates:
    """Return the states that links are to have, of the aligned reference; velocities are as they are."""
    reference, sim = state.part(Reference), state.sim
    pose, links = reference.pose_vel, reference.links(names)
    yaw = turn_between(pose.root_quat, sim.root_quat)  # [N]
    zero = torch.zeros_like(yaw)
    turn = rotation_matrix(torch.stack(((yaw / 2).cos(), zero, zero, (yaw / 2).sin()), dim=1)).unsqueeze(1)
    place = torch.cat((sim.root_pos[:, :2], pose.root_pos[:, 2:]), dim=1).unsqueeze(1)
    pos = (turn @ (links.pos - pose.root_pos.unsqueeze(1)).unsqueeze(-1)).squeeze(-1) + place
    return links._replace(pos=pos, turn=turn @ links.turn)


# Observations


def reference_joint_pos(state: RobotState) -> Tensor:
    """Joint angles of the frames ahead, less those of the default pose, frame after frame [rad]."""
    return (state.part(Reference).ahead.joint_pos - state.default_joint_pos).flatten(1)


def reference_joint_vel(state: RobotState) -> Tensor:
    """Joint velocities of the frames ahead, frame after frame [rad/s]."""
    return state.part(Reference).ahead.joint_vel.flatten(1)


def reference_offset(state: RobotState) -> Tensor:
    """Position of the reference's trunk in the robot's base frame [m]."""
    return rotate_inverse(state.sim.root_quat, state.part(Reference).pose_vel.root_pos - state.sim.root_pos)


def reference_turn(state: RobotState) -> Tensor:
    """The x and the y axis of the reference's trunk in the robot's base frame: x1 y1 x2 y2 x3 y3."""
    return rotation_matrix(_anchor_turn(state))[:, :, :2].flatten(1)


def reference_phase(state: RobotState) -> Tensor:
    """Sine and cosine of the part of the clip that is over, in turns."""
    angle = 2 * math.pi * state.part(Reference).phase
    return torch.stack((angle.sin(), angle.cos()), dim=1)


def reference_clip(state: RobotState) -> Tensor:
    """1 for the clip that the robot follows, 0 for each other one."""
    reference = state.part(Reference)
    return (reference.clip.unsqueeze(1) == torch.arange(len(reference.names), device=reference.clip.device)).float()


def reference_feet(state: RobotState) -> Tensor:
    """Positions that the feet are to have, in the robot's base frame, foot after foot [m]."""
    return state.in_base(state.part(Reference).links(state.sim.foot_names).pos)


# Rewards


def _score(errors: Tensor, sigma: float) -> Tensor:
    """Return exp(-mean of errors^2 / sigma^2) of errors [N, L]."""
    return errors.square().mean(dim=1).div_(-(sigma**2)).exp_()


def anchor_pos(state: RobotState, *, sigma: Positive = 0.3) -> Tensor:
    """Score of the trunk's position; sigma in m."""
    error = state.part(Reference).pose_vel.root_pos - state.sim.root_pos
    return _score(error.norm(dim=1, keepdim=True), sigma)


def anchor_turn(state: RobotState, *, sigma: Positive = 0.4) -> Tensor:
    """Score of the trunk's orientation; sigma in rad."""
    return _score(to_vector(_anchor_turn(state)).norm(dim=1, keepdim=True), sigma)


def link_pos(state: RobotState, *, links: Names, sigma: Positive = 0.3) -> Tensor:
    """Score of the positions of links against the aligned reference; sigma in m."""
    return _score((state.links(links).pos - aligned(state, links).pos).norm(dim=-1), sigma)


def link_turn(state: RobotState, *, links: Names, sigma: Positive = 0.4) -> Tensor:
    """Score of the orientations of links against the aligned reference; sigma in rad."""
    return _score(_turn_errors(state.links(links).turn, aligned(state, links).turn), sigma)


def link_vel(state: RobotState, *, links: Names, sigma: Positive = 1.0) -> Tensor:
    """Score of the velocities of links in the world; sigma in m/s."""
    own, wanted = links_of(state, links)
    return _score((own.vel - wanted.vel).norm(dim=-1), sigma)


def link_ang_vel(state: RobotState, *, links: Names, sigma: Positive = math.pi) -> Tensor:
    """Score of the angular velocities of links in the world; sigma in rad/s."""
    own, wanted = links_of(state, links)
    return _score((own.ang_vel - wanted.ang_vel).norm(dim=-1), sigma)


def joint_pos(state: RobotState, *, sigma: Positive = 0.3) -> Tensor:
    """Score of the joint angles; sigma in rad."""
    return _score(state.joint_pos - state.part(Reference).pose_vel.joint_pos, sigma)


# Terminations


def anchor_height(state: RobotState, *, largest: Positive = 0.25) -> Tensor:
    """The trunk is more than ``largest`` [m] higher or lower than that of the reference."""
    return (state.part(Reference).pose_vel.root_pos[:, 2] - state.sim.root_pos[:, 2]).abs() > largest


def anchor_distance(state: RobotState, *, largest: Positive = 1.0) -> Tensor:
    """The trunk is more than ``largest`` [m] from that of the reference."""
    return (state.part(Reference).pose_vel.root_pos - state.sim.root_pos).norm(dim=1) > largest


def anchor_tilt(state: RobotState, *, largest: Positive = 0.8) -> Tensor:
    """The z components of the unit vectors of gravity in the base frames of robot and reference differ by more than
    ``largest``."""
    quat = state.part(Reference).pose_vel.root_quat
    down = torch.zeros_like(quat[:, 1:])
    down[:, 2] = -1.0
    return (rotate_inverse(quat, down)[:, 2] - state.gravity[:, 2]).abs() > largest


def link_height(state: RobotState, *, links: Names, largest: Positive = 0.25) -> Tensor:
    """One of the links is more than ``largest`` [m] higher or lower than in the reference."""
    own, wanted = links_of(state, links)
    return ((own.pos[..., 2] - wanted.pos[..., 2]).abs() > largest).any(dim=1)


def motion_end(state: RobotState, *, hold: NotNegative = 0.5, loop_time: NotNegative = 0.0) -> Tensor:
    """The end of the motion, for a termination with ``time_out``: ``hold`` [s] after the last frame of a clip; of a
    loop ``loop_time`` [s] after its first frame, or never with 0."""
    reference = state.part(Reference)
    loops, over = reference.loops[reference.clip], reference.time - reference.lengths[reference.clip] >= hold
    return torch.where(loops, (reference.time >= loop_time) & (loop_time > 0), over)


# Metrics


def mpkpe(state: RobotState, *, links: Names) -> Tensor:
    """Mean position error of key bodies: mean distance of links from where they are to be in the world [m]."""
    own, wanted = links_of(state, links)
    return (own.pos - wanted.pos).norm(dim=-1).mean(dim=1)


def root_relative_mpkpe(state: RobotState, *, links: Names) -> Tensor:
    """The same with the trunk of both in one place [m]."""
    own, wanted = links_of(state, links)
    apart = (state.sim.root_pos - state.part(Reference).pose_vel.root_pos).unsqueeze(1)
    return (own.pos - wanted.pos - apart).norm(dim=-1).mean(dim=1)


def joint_error(state: RobotState) -> Tensor:
    """Mean error of the joint angles [rad]."""
    return (state.joint_pos - state.part(Reference).pose_vel.joint_pos).abs().mean(dim=1)


def turn_error(state: RobotState) -> Tensor:
    """Angle between the orientations of the trunk and of that of the reference [rad]."""
    return to_vector(_anchor_turn(state)).norm(dim=1)
