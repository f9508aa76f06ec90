"""What a robot may do in answer to a command: walk, or earn rewards without walking.

A motion has a constant velocity and a fixed schedule of steps. Its joint angles follow from inverse kinematics, its
torques from inverse dynamics.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Dict, List, NamedTuple, Sequence, Tuple

import torch
from torch import Tensor

from rsl_rl.motion.legs import Legs, yaw_matrix
from rsl_rl.sim.kinematics import rotation_matrix

DUTY = 0.55
"""Share of a cycle of steps in which a foot is on the floor, unless the task has a gait clock."""

MAX_ERROR = 0.01
"""Largest error of a foot in a motion that counts as possible, as a share of the length of the legs."""

SWAY_LINEAR, SWAY_ANGULAR = (0.02, 0.02, 0.02), (0.04, 0.04, 0.008)
"""Sway of the trunk of a stepping robot along and about each axis: root mean squares as shares of sqrt(g L) and of
sqrt(g / L), with the length L of the legs. Trained policies of go2_flat have these at 0.2 m/s."""

_GRAVITY = 9.81  # [m/s^2]

_LOADED = 0.1
"""Least share of its load that a standing foot carries just before it lifts and just after it lands."""


@dataclass(frozen=True)
class Motion:
    """A motion with constant velocity."""

    name: str
    velocity: Tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Forward and left [m/s], yaw rate [rad/s], in the base frame."""
    period: float = 0.0
    """Time of a cycle, in which each foot makes one step [s]; 0: the feet stay where they are."""
    swing_height: float = 0.0
    """How far feet are lifted [m]; with 0 they slide over the floor."""
    height: float = 1.0
    """Height of the trunk as a share of the standing height."""
    tilt: Tuple[float, float] = (0.0, 0.0)
    """Roll and pitch of the trunk [rad]."""
    lifted: float = 0.0
    """How far the first foot is held up all the time [m]."""


class Gait(NamedTuple):
    """When which foot is on the floor."""

    offsets: Tuple[float, ...]  # of each foot, in cycles
    duty: float  # share of a cycle on the floor
    clock: float = 0.0  # period of the gait clock of the task [s]; 0: it has none


class Track(NamedTuple):
    """A motion at each control step of a cycle, in the frame of the heading on the floor under the trunk."""

    phase: Tensor  # [P] in cycles
    trunk: Tensor  # [P, 7] position and quaternion
    foot_pos: Tensor  # [P, F, 3]
    foot_vel: Tensor  # [P, F, 3]
    foot_up: Tensor  # [P, F, 3] z axis of the feet
    joint_pos: Tensor  # [P, J]
    joint_vel: Tensor  # [P, J]
    torque: Tensor  # [P, J]
    force: Tensor  # [P, F, 3]
    sway: Tensor  # [P, 6] what the trunk's velocity differs from the constant one, linear [m/s] and angular [rad/s]
    possible: bool  # whether the legs reach


def trot_offsets(foot_position: Tensor) -> Tuple[float, ...]:
    """Return the phase of each foot, 0 or half a cycle, for positions [F, 3]: neighbours on a side and feet opposite to
    each other alternate."""
    offsets = [0.0] * len(foot_position)
    for side in (True, False):
        own = [i for i in range(len(foot_position)) if (float(foot_position[i, 1]) >= 0) == side]
        for rank, i in enumerate(sorted(own, key=lambda i: -float(foot_position[i, 0]))):
            offsets[i] = ((rank + (not side)) % 2) / 2
    return tuple(offsets)


class Planner:
    """Compute the tracks of motions for a robot."""

    def __init__(self, legs: Legs, gait: Gait, control_dt: float, foot_radius: float, height: float):
        self._legs, self._gait, self._dt = legs, gait, control_dt
        self._radius, self._height = foot_radius, height  # of a standing foot's centre and of the standing trunk [m]

    def tracks(self, motions: Sequence[Motion]) -> Dict[Motion, Track]:
        """Return the track of each motion."""
        unique = list(dict.fromkeys(motions))
        plans = [self._plan(motion) for motion in unique]
        sizes = [len(plan.phase) for plan in plans]
        trunk = torch.cat([plan.trunk for plan in plans])
        foot_pos, yaw = torch.cat([plan.foot_pos for plan in plans]), torch.cat([plan.foot_yaw for plan in plans])
        # in the trunk's frame
        turned = rotation_matrix(trunk[:, 3:])  # [S, 3, 3]
        position = (foot_pos - trunk[:, None, :3]) @ turned
        rotation = turned.mT.unsqueeze(1) @ yaw_matrix(yaw) @ self._legs.default_rotation
        joint_pos, error = self._legs.solve(position, rotation)
        speeds = [_rate(own, self._dt) for own in joint_pos.split(sizes)]
        joints = (joint_pos, torch.cat(speeds), torch.cat([_rate(own, self._dt) for own in speeds]))
        velocity = torch.cat([plan.velocity for plan in plans])
        share = torch.cat([plan.share for plan in plans])
        loads = self._legs.loads(trunk[:, 2], trunk[:, 3:], velocity, joints, share)
        feet = self._legs.feet(joint_pos)
        up = self._legs.up(feet.rotation)
        touching = share > 0
        force = loads.force.clone()
        force[:, :, 2] = torch.where(touching, force[:, :, 2].clamp(min=2.0), torch.zeros_like(force[:, :, 2]))
        tracks = {}
        for i, (motion, plan) in enumerate(zip(unique, plans)):
            rows = slice(sum(sizes[:i]), sum(sizes[: i + 1]))
            reached = foot_pos[rows]
            moving = _rate(reached, self._dt) + plan.velocity[:, None] * torch.tensor([1.0, 1.0, 0.0])
            turn = plan.velocity[:, 2].view(-1, 1)
            moving = moving + torch.stack(
                (-turn * reached[:, :, 1], turn * reached[:, :, 0], torch.zeros_like(reached[:, :, 0])), dim=2
            )
            possible = bool(error[rows].max() < MAX_ERROR * self._legs.length)
            world_up = (turned[rows].unsqueeze(1) @ up[rows].unsqueeze(3))[..., 0]
            tracks[motion] = Track(
                plan.phase,
                trunk[rows],
                reached,
                moving,
                world_up,
                joint_pos[rows],
                joints[1][rows],
                loads.torque[rows],
                force[rows],
                self._sway(plan.phase, motion),
                possible,
            )
        return tracks

    def _sway(self, phase: Tensor, motion: Motion) -> Tensor:
        """Return how the trunk of a stepping robot sways, twice in a cycle [P, 6]."""
        if not motion.period:
            return torch.zeros(len(phase), 6, dtype=torch.float64)
        root = math.sqrt(_GRAVITY * self._legs.length)  # [m/s]
        sizes = [x * root for x in SWAY_LINEAR] + [x * root / self._legs.length for x in SWAY_ANGULAR]
        late = torch.arange(6, dtype=torch.float64) / 6
        return (4 * math.pi * (phase.unsqueeze(1) - late)).sin() * math.sqrt(2) * torch.tensor(sizes)

    def _plan(self, motion: Motion) -> _Plan:
        """Return where trunk and feet are in each control step of a cycle."""
        steps = max(1, round((motion.period or self._gait.clock) / self._dt))
        feet, period = self._legs.default_position, steps * self._dt
        phase = (torch.arange(steps, dtype=torch.float64) + 0.5) / steps  # no step is at the border of a stance
        velocity = torch.tensor(motion.velocity, dtype=torch.float64).expand(steps, 3)
        height = self._height * motion.height
        trunk = torch.tensor([0.0, 0.0, height, *_quat(*motion.tilt)], dtype=torch.float64).expand(steps, 7)
        home = feet.clone()
        home[:, 2] = self._radius
        if not motion.period:
            foot_pos = home.expand(steps, -1, -1).clone()
            foot_pos[:, 0, 2] += motion.lifted
            share = torch.ones(steps, len(feet), dtype=torch.float64)
            share[:, 0] = float(not motion.lifted)
            return _Plan(phase, velocity, trunk, foot_pos, torch.zeros_like(share), share)
        duty = self._gait.duty
        turns = (phase.unsqueeze(1) - torch.tensor(self._gait.offsets, dtype=torch.float64)) % 1.0  # [P, F]
        since = (turns - duty / 2) * period  # [s] since the middle of the stance
        swing = ((turns - duty) / (1 - duty)).clamp(0.0, 1.0)
        blend = swing**3 * (10 - 15 * swing + 6 * swing**2)
        old, new = _fixed_point(home, motion.velocity, since), _fixed_point(home, motion.velocity, since - period)
        foot_pos = old + (new - old) * blend.unsqueeze(2)
        foot_pos[:, :, 2] += motion.swing_height * 64 * (swing * (1 - swing)) ** 3
        yaw = motion.velocity[2] * (blend * period - since)
        stance = (turns / duty).clamp(max=1.0)
        share = (_LOADED + 5 * torch.minimum(stance, 1 - stance)).clamp(max=1.0)
        # RobotState counts a contact for one step more, so that a foot has no load in its last one
        loaded = turns + 1 / steps < duty
        unloaded = 0.0 if motion.swing_height else 1e-3
        share = torch.where(loaded, share, torch.full_like(share, unloaded))
        return _Plan(phase, velocity, trunk, foot_pos, yaw, share)


class _Plan(NamedTuple):
    phase: Tensor  # [P]
    velocity: Tensor  # [P, 3]
    trunk: Tensor  # [P, 7]
    foot_pos: Tensor  # [P, F, 3]
    foot_yaw: Tensor  # [P, F] relative to the heading [rad]
    share: Tensor  # [P, F] of the load


def _fixed_point(home: Tensor, velocity: Sequence[float], since: Tensor) -> Tensor:
    """Return where points of the floor are, seen from a trunk that moves at constant velocity, at times [P, F] since
    they were at ``home`` [F, 3]."""
    vx, vy, rate = velocity
    angle = rate * since
    along = since * torch.sinc(angle / math.pi)  # the integral of the cosine
    across = since * torch.sinc(angle / (2 * math.pi)) * (angle / 2).sin()  # and of the sine
    moved = torch.stack((vx * along - vy * across, vx * across + vy * along, torch.zeros_like(angle)), dim=2)
    return ((home - moved).unsqueeze(2) @ yaw_matrix(angle)).squeeze(2)


def _rate(values: Tensor, dt: float) -> Tensor:
    """Return the derivative of a cycle [P, ...] by time."""
    return (values.roll(-1, 0) - values.roll(1, 0)) / (2 * dt)


def _quat(roll: float, pitch: float) -> List[float]:
    (cr, sr), (cp, sp) = ((math.cos(x / 2), math.sin(x / 2)) for x in (roll, pitch))
    return [cr * cp, sr * cp, cr * sp, -sr * sp]
