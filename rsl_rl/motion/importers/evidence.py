"""Find units, the order of quaternions and the frame of a motion by what a robot does: it has its feet on the floor,
they rest while they stand, its trunk is upright, and its joints keep their limits."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Dict, List, NamedTuple, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

from rsl_rl.motion.importers.source import ANGLES, EULER, LENGTHS, QUATERNIONS, ConventionError, Given, Source
from rsl_rl.motion.kinematics import Kinematics
from rsl_rl.motion.legs import Legs
from rsl_rl.motion.rotations import conjugate, from_vector, multiply, rotate, turn_between

_SAMPLES, _FEW_SAMPLES = 300, 60
"""Pairs of frames that are looked at; the second number is for many orders of joints."""

_SLIP, _GAP, _TILT, _LIMIT = 0.05, 0.1, 0.3, 0.05
"""Size of each fault that counts as 1: speed of resting feet [m/s], distance of the lowest foot from the floor as a
share of the legs' length, 1 - cosine of the trunk's tilt, and the mean way beyond joint limits [rad]."""

MOST = 3.0
"""Largest sum of faults of a reading that is believed."""

_FACTOR, _MARGIN = 3.0, 0.2
"""Readings with less than the faults of the best one times the factor, plus the margin, fit too."""

_UNDER, _LOW = 0.1, 0.6
"""Trunk and feet of a robot that lies are not deeper than the first and not higher than the second number, as shares of
the legs' length."""

_SAME_PLACE, _SAME_ANGLE = 2e-3, 4e-3
"""Readings that differ by less are the same motion [m] and [rad]."""


class Columns(NamedTuple):
    """Columns of a file that hold the joints of a model, with their signs."""

    index: Tuple[int, ...]
    sign: Tuple[float, ...]


class Reading(NamedTuple):
    """A motion as read under one set of conventions."""

    conventions: Dict[str, str]  # by the name of the flag
    root_pos: Tensor  # [F, 3] m
    root_quat: Tensor  # [F, 4] w x y z
    joint_pos: Tensor  # [F, J] rad
    faults: Dict[str, float]  # by kind, in units of what counts as 1

    @property
    def cost(self) -> float:
        """Return the sum of faults."""
        return sum(self.faults.values())


_WORDS = {
    "slip": "its feet never rest on the floor",
    "gap": "its feet are not near the floor at height 0",
    "tilt": "its trunk is not upright",
    "limits": "its joint angles are beyond the limits",
}


def up_quat(up: str) -> Tensor:
    """Return the rotation [4] that turns an axis of the file's world upwards."""
    half = torch.pi / 2
    turns = {"z": (0, 0, 0), "y": (half, 0, 0), "x": (0, -half, 0), "-z": (2 * half, 0, 0), "-y": (-half, 0, 0)}
    return from_vector(torch.tensor(turns.get(up, (0, half, 0)), dtype=torch.float64))


def euler_quat(angles: Tensor, order: str) -> Tensor:
    """Return the rotations [F, 4] of turns [F, 3] about the fixed axes x, y and z, made in an order such as xyz."""
    quat = torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64).expand(len(angles), 4)
    for axis in order:
        vector = torch.zeros_like(angles)
        vector[:, "xyz".index(axis)] = angles[:, "xyz".index(axis)]
        quat = multiply(from_vector(vector), quat)
    return quat


def decide(
    source: Source, orders: Sequence[Columns], given: Given, kinematics: Kinematics, legs: Legs, fps: float
) -> Reading:
    """Return the one reading of a root and of joint angles that fits, over the possible orders of joints.

    Several that fit are a ConventionError that names the flag to give.
    """
    readings = _readings(source, orders, given, kinematics, legs, fps)
    if not readings:
        raise ConventionError(
            f"{source.name}: with no order of its joints are their angles within the limits; check --robot, or "
            "give --joints"
        )
    readings.sort(key=lambda reading: reading.cost)
    best = readings[0]
    if not best.cost < MOST and len(readings) > 1:
        worst = max(best.faults, key=lambda kind: best.faults[kind])
        flags = ", ".join(f"--{flag}" for flag in best.conventions if flag != "joints")
        raise ConventionError(
            f"{source.name} fits the robot under no conventions: {_WORDS[worst]}; check --robot and --joints, or give "
            f"all of {flags}"
        )
    rivals = [x for x in readings[1:] if x.cost < _FACTOR * best.cost + _MARGIN and not _same(best, x)]
    if rivals:
        options = {flag: list(dict.fromkeys(x.conventions[flag] for x in (best, *rivals))) for flag in best.conventions}
        listed = "; ".join(
            "--joints with the names of its columns in their order"
            if flag == "joints"
            else f"--{flag} {' or '.join(values)}"
            for flag, values in options.items()
            if len(values) > 1
        )
        usual = f" ({source.usual} is usual for this format)" if source.usual else ""
        raise ConventionError(f"{source.name} does not show all of its conventions: add {listed}{usual}")
    up = best.conventions["up"]
    if not given.up and up != "z":
        level = next(x for x in readings if x.conventions == {**best.conventions, "up": "z"})
        refuse_lying(source, (level.root_pos, level.root_quat, level.joint_pos), up.split(",")[0], legs)
    return best


def refuse_lying(source: Source, motion: Tuple[Tensor, Tensor, Tensor], up: str, legs: Legs) -> None:
    """Raise a ConventionError if a robot that stands with the axis ``up`` upwards lies on the floor with z upwards.

    ``motion`` has the positions [F, 3], rotations [F, 4] and joint angles [F, J] with z upwards.
    """
    pos, quat, joint_pos = motion
    feet = pos.unsqueeze(1) + rotate(quat.unsqueeze(1), legs.feet(joint_pos).position)
    heights = torch.cat((pos.unsqueeze(1), feet), dim=1)[..., 2] / legs.length
    if bool((heights > -_UNDER).all() and (heights < _LOW).all()):
        raise ConventionError(
            f"{source.name} shows a robot that stands if {up} points up, and one that lies on the floor if z does: add "
            f"--up {up} or --up z"
        )


def note_on_legs(
    source: Source,
    columns: Columns,
    reading: Reading,
    given: Given,
    kinematics: Kinematics,
    legs: Legs,
    fps: float,
) -> str:
    """Return a note if the motion fits the robot with the columns of a leg given to another leg, else "".

    It says which order, and whether that has far fewer faults than the one of ``columns``.
    """
    moved = legs.feet(legs.default.unsqueeze(0)).jacobian[0].abs().sum(dim=1) > 0  # [F, J]
    own = [row.nonzero().squeeze(1).tolist() for row in moved]
    if len({len(joints) for joints in own}) > 1 or bool((moved.sum(dim=0) > 1).any()):
        return ""
    orders, feet = [], []
    for places in list(itertools.permutations(range(len(own))))[1:]:  # the first one is the given order
        index, sign = list(columns.index), list(columns.sign)
        for joints, place in zip(own, places):
            for joint, other in zip(joints, own[place]):
                index[joint], sign[joint] = columns.index[other], columns.sign[other]
        orders.append(Columns(tuple(index), tuple(sign)))
        feet.append([legs.foot_names[place] for place in places])
    known = {flag: value.split(",")[0] for flag, value in reading.conventions.items() if flag != "joints"}
    found = _readings(source, orders, replace(given, **known), kinematics, legs, fps)
    best = min((one for one in found if not _same(one, reading)), key=lambda one: one.cost, default=reading)
    if best is reading or best.cost > _FACTOR * reading.cost + _MARGIN:
        return ""
    names = feet[int(best.conventions["joints"])]
    order = f"the columns of {', '.join(names)} at {', '.join(legs.foot_names)}"
    if _FACTOR * best.cost + _MARGIN < reading.cost:
        return f"doubtful: the motion fits far better with {order}; check --joints"
    return f"the order of the legs is that of --joints; {order} would fit too"


def _readings(
    source: Source, orders: Sequence[Columns], given: Given, kinematics: Kinematics, legs: Legs, fps: float
) -> List[Reading]:
    """Return the motion under each set of conventions, with its faults."""
    assert source.joints is not None and source.root_pos is not None
    count = len(source.joints)
    samples = _SAMPLES if len(orders) < 8 else _FEW_SAMPLES
    first = np.unique(np.linspace(0, count - 2, min(samples, count - 1)).round().astype(int))
    rows = torch.as_tensor(np.stack((first, first + 1), axis=1).ravel())
    place, joints = torch.as_tensor(source.root_pos), torch.as_tensor(source.joints)
    turns, frames = _rotations(source, given), _frames(given)
    low, high = kinematics.limits.unbind(1)
    found = []
    for angles, (number, columns) in itertools.product(
        [given.angles] if given.angles else list(ANGLES), list(enumerate(orders))
    ):
        joint_pos = joints[:, list(columns.index)] * torch.tensor(columns.sign, dtype=torch.float64) * ANGLES[angles]
        beyond = (low - joint_pos).clamp(min=0) + (joint_pos - high).clamp(min=0)
        limits = float(beyond.amax(dim=1).mean()) / _LIMIT
        if limits > MOST and len(orders) > 1:
            continue  # would not be believed, and many orders end here
        feet = legs.feet(joint_pos[rows]).position  # [2 S, F, 3] in the trunk's frame
        for (names, quat), (up, whole) in itertools.product(turns[angles], frames):
            turn = up_quat(up)
            world = multiply(turn.expand_as(quat), quat)
            if whole:  # the frames of the bodies have the axis up too
                world = multiply(world, conjugate(turn).expand_as(world))
            seen = rotate(world[rows].unsqueeze(1), feet)
            upright = 1 - 2 * world[:, 1:3].square().sum(dim=1)  # z axis of the trunk along z
            for length in [given.length] if given.length else LENGTHS:
                pos = rotate(turn, place) * LENGTHS[length]
                points = (pos[rows].unsqueeze(1) + seen).unflatten(0, (-1, 2))  # [S, 2, F, 3]
                speed = (points[:, 1] - points[:, 0]).norm(dim=2) * fps
                lowest = float(points[..., 2].min()) - legs.radius
                faults = {
                    "slip": float(speed.quantile(0.25, dim=0).mean()) / _SLIP,
                    "gap": abs(lowest) / (_GAP * legs.length),
                    "tilt": float((1 - upright).mean()) / _TILT,
                    "limits": limits,
                }
                frame = f"{up}, of bodies too" if whole else up
                conventions = {**names, "angles": angles, "length": length, "up": frame, "joints": str(number)}
                found.append(Reading(conventions, pos, world, joint_pos, faults))
    return found


def _frames(given: Given) -> List[Tuple[str, bool]]:
    """Return axes that may point up, and whether they do so in the frames of the bodies too."""
    ups = [given.up] if given.up else ["z", "y", "x"]
    return [(up, whole) for up in ups for whole in ((False,) if up == "z" else (False, True))]


def _rotations(source: Source, given: Given) -> Dict[str, List[Tuple[Dict[str, str], Tensor]]]:
    """Return the rotations of the root [F, 4] by the unit of angles, with their conventions."""
    found: Dict[str, List[Tuple[Dict[str, str], Tensor]]] = {angles: [] for angles in ANGLES}
    for angles, unit in ANGLES.items():
        if source.root_quat is not None:
            own = torch.nn.functional.normalize(torch.as_tensor(source.root_quat), dim=1)
            for order in [given.quaternion] if given.quaternion else QUATERNIONS:
                quat = own if order == "wxyz" else own[:, [3, 0, 1, 2]]
                found[angles].append(({"quaternion": order}, quat))
        else:
            assert source.root_euler is not None
            for order in [given.euler] if given.euler else EULER:
                quat = euler_quat(torch.as_tensor(source.root_euler) * unit, order)
                found[angles].append(({"euler": order}, quat))
    return found


def _same(a: Reading, b: Reading) -> bool:
    """Return whether two readings are the same motion, seen from where it starts."""
    (pos_a, quat_a), (pos_b, quat_b) = (_from_start(x) for x in (a, b))
    apart = multiply(conjugate(quat_a), quat_b)
    angle = 2 * apart[:, 1:].norm(dim=1).clamp(max=1.0).asin()
    return bool(
        (pos_a - pos_b).abs().max() < _SAME_PLACE
        and angle.max() < _SAME_ANGLE
        and (a.joint_pos - b.joint_pos).abs().max() < _SAME_ANGLE
    )


def _from_start(reading: Reading) -> Tuple[Tensor, Tensor]:
    """Return positions and rotations of the trunk seen from its first place and heading."""
    level = torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    zero = torch.zeros((), dtype=torch.float64)
    back = from_vector(torch.stack((zero, zero, -turn_between(level, reading.root_quat[0]))))
    start = reading.root_pos[0] * torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64)
    pos = rotate(back, reading.root_pos - start)
    return pos, multiply(back.expand_as(reading.root_quat), reading.root_quat)
