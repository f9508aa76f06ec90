"""Find which body of a file is which link of a robot, and which column is which joint, from the poses of the bodies.

The place of a link in the frame of its parent is known from the model, and its rotation there is about the joint's
axis. One assignment of bodies to links makes all of them agree, whatever the order, the unit and the frame of the file.
"""

from __future__ import annotations

import itertools
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

from rsl_rl.motion.importers.evidence import Columns, euler_quat, refuse_lying, up_quat
from rsl_rl.motion.importers.source import (
    ANGLES,
    LENGTHS,
    QUATERNIONS,
    UPS,
    ConventionError,
    Given,
    OtherBodiesError,
    Source,
)
from rsl_rl.motion.kinematics import BodyFrames, Kinematics
from rsl_rl.motion.legs import Legs
from rsl_rl.motion.rotations import conjugate, from_matrix, multiply, rotate

_SAMPLES = 40
"""Frames that are looked at."""

_PLACE, _OFF_AXIS, _ANGLE = 3e-3, 2e-2, 1e-2
"""Largest error of a link's place in its parent's frame [m], of a rotation about another axis than the joint's [rad],
and of a column that holds a joint's angle [rad]."""

_BEYOND = 0.02
"""Mean way beyond joint limits [rad] of a reading that is believed if another one keeps them better."""

_MOST_MATCHES = 64


class Link(NamedTuple):
    """A link of a model in the frame of its parent."""

    parent: int
    offset: Tensor  # [3] m
    quat: Tensor  # [4] rotation at angle 0
    axis: Optional[Tensor]  # [3] of its joint, None without one
    anchor: Tensor  # [3] of the joint in the link's frame [m]
    joint: int  # column of the model
    rest: Tensor  # [4] rotation in the trunk's frame when all angles are 0


class Posed(NamedTuple):
    """A motion that was found from the poses of bodies."""

    root_pos: Tensor  # [F, 3] m
    root_quat: Tensor  # [F, 4] w x y z
    joint_pos: Tensor  # [F, J] rad
    notes: Tuple[str, ...]


class Match(NamedTuple):
    """A reading of a file with poses of bodies that fits a robot."""

    quaternion: str
    length: str
    bodies: Tuple[int, ...]  # of the file, of each link
    root_pos: Tensor  # [F, 3] m
    root_quat: Tensor  # [F, 4] w x y z
    joint_pos: Tensor  # [F, J] rad


def links_of(kinematics: Kinematics) -> List[Link]:
    """Return the links of a model in its order."""
    model, frames = kinematics.model, BodyFrames(kinematics.model, kinematics.joints, _zeros(kinematics))
    column = {joint: i for i, joint in enumerate(kinematics.joints)}
    found = []
    for body, parent in zip(kinematics.bodies, kinematics.parents):
        own = [j for j in range(model.body_jntadr[body], model.body_jntadr[body] + model.body_jntnum[body])]
        joint = own[0] if parent >= 0 and own else -1
        if parent >= 0 and (len(own) > 1 or (own and joint not in column)):
            raise ValueError(f"the body {model.body(body).name} has several joints, or one without an actuator")
        offset, quat = torch.as_tensor(model.body_pos[body]), torch.as_tensor(model.body_quat[body])
        axis = torch.as_tensor(model.jnt_axis[joint]) if joint >= 0 else None
        anchor = torch.as_tensor(model.jnt_pos[joint]) if joint >= 0 else torch.zeros(3, dtype=torch.float64)
        rest = from_matrix(frames(body).rotation[0])
        found.append(Link(parent, offset, quat, axis, anchor, column.get(joint, -1), rest))
    return found


def _zeros(kinematics: Kinematics) -> Tensor:
    return torch.as_tensor(kinematics.model.qpos0[kinematics.model.jnt_qposadr[kinematics.joints]]).unsqueeze(0)


def match_poses(source: Source, kinematics: Kinematics, legs: Legs, given: Given) -> Posed:
    """Return the motion of a file with poses of all links; a file that fits no order of bodies is a ValueError."""
    assert source.body_pos is not None and source.body_quat is not None
    links = links_of(kinematics)
    count = len(source.body_pos)
    rows = np.unique(np.linspace(0, count - 1, min(_SAMPLES, count)).round().astype(int))
    place, turns = torch.as_tensor(source.body_pos), torch.as_tensor(source.body_quat)
    turns = torch.nn.functional.normalize(turns, dim=-1)
    if place.shape[1] < len(links):
        raise OtherBodiesError(f"{source.name} has {place.shape[1]} bodies, and the robot {len(links)}; check --robot")
    worlds: List[Optional[Tensor]] = [None, *(_axes_turns() if source.rest_aligned else ())]
    found: List[Match] = []
    options: List[Tuple[str, List[int], str, Optional[Tensor]]] = []
    orders = ["wxyz"] if source.rest_aligned else [given.quaternion] if given.quaternion else QUATERNIONS
    for length in [given.length] if given.length else LENGTHS:
        roots = _roots(links, place[rows] * LENGTHS[length])
        options += [(length, roots, order, world) for order in orders for world in worlds if roots]
    for length, roots, order, world in options:
        pos = place * LENGTHS[length]
        quat = turns if order == "wxyz" else turns[..., [3, 0, 1, 2]]
        if world is not None:
            pos, quat = (
                rotate(world, pos),
                multiply(multiply(world.expand_as(quat), quat), conjugate(world).expand_as(quat)),
            )
        aligned = world is not None
        for bodies in _assignments(links, roots, pos[rows], quat[rows], aligned):
            own = quat[:, bodies]
            if aligned:
                own = multiply(own, torch.stack([link.rest for link in links]).expand_as(own))
            joint_pos = _angles(links, own, kinematics)
            new = Match(order, length, tuple(bodies), pos[:, bodies[0]], own[:, 0], joint_pos)
            if not any(_equal(new, old) for old in found):
                found.append(new)
    if not found:
        raise OtherBodiesError(
            f"{source.name}: no order of its {place.shape[1]} bodies, unit or order of quaternions makes them the "
            "links of this robot; check --robot, or give --joints to read only its first body and its joints"
        )
    low, high = kinematics.limits.unbind(1)
    beyond = [((low - x.joint_pos).clamp(min=0) + (x.joint_pos - high).clamp(min=0)).mean() for x in found]
    possible = [x for x, angle in zip(found, beyond) if angle < _BEYOND]
    found = possible or found  # a robot turned round has other angles
    if len(found) > 1:
        values = {name: sorted({getattr(x, name) for x in found}) for name in ("quaternion", "length")}
        flags = " and ".join(f"--{name} {' or '.join(own)}" for name, own in values.items() if len(own) > 1)
        raise ConventionError(
            f"{source.name} fits {len(found)} orders of bodies; add {flags or 'more motion to the clip'}"
        )
    order, length, bodies, pos, quat, joint_pos = found[0]
    turn, up = _upwards(source, pos, quat, joint_pos, legs, given)
    pos, quat = rotate(turn, pos), multiply(turn.expand_as(quat), quat)
    notes = [f"quaternions {order}, lengths in {length}, {up} up"]
    if bodies != tuple(range(len(links))):
        notes.append(f"bodies of the file in the order of the model: {', '.join(map(str, bodies))}")
    if source.joints is not None:
        notes += _columns(source, joint_pos, kinematics)
    return Posed(pos, quat, joint_pos, tuple(notes))


def _axes_turns() -> List[Tensor]:
    """Return the 24 rotations [4] that bring axes onto axes."""
    found: List[Tensor] = []
    for angles in itertools.product((0, 1, 2, 3), repeat=3):
        quat = euler_quat(torch.tensor([angles], dtype=torch.float64) * torch.pi / 2, "xyz")[0]
        if not any(abs(float(quat @ other)) > 0.99 for other in found):
            found.append(quat)
    return found


def _roots(links: Sequence[Link], pos: Tensor) -> List[int]:
    """Return the bodies [S, B] that may be the trunk: with bodies as far away as the links that hang on it."""
    arms = [link.offset.norm() for link in links if link.parent == 0 and not link.anchor.any()]
    apart = (pos.unsqueeze(2) - pos.unsqueeze(1)).norm(dim=3)  # [S, B, B]
    near = [((apart - arm).abs().amax(dim=0) < _PLACE).any(dim=1) for arm in arms]
    every = torch.stack(near).all(dim=0) if near else torch.ones(pos.shape[1], dtype=torch.bool)
    return every.nonzero().squeeze(1).tolist()


def _assignments(
    links: Sequence[Link], roots: Sequence[int], pos: Tensor, quat: Tensor, aligned: bool
) -> List[List[int]]:
    """Return the assignments of bodies [S, B] to links that fit; each lists the body of each link."""
    found: List[List[int]] = []

    def extend(bodies: List[int]) -> None:
        if len(bodies) == len(links):
            found.append(bodies)
        if len(bodies) == len(links) or len(found) >= _MOST_MATCHES:
            return
        for body in _candidates(links, len(bodies), bodies, pos, quat, aligned):
            extend([*bodies, body])

    for body in roots:
        extend([body])
    return found


def _candidates(
    links: Sequence[Link], number: int, bodies: Sequence[int], pos: Tensor, quat: Tensor, aligned: bool
) -> List[int]:
    """Return the bodies that may be a link, given those of the links before it."""
    link = links[number]
    parent = bodies[link.parent]
    own, before = quat, quat[:, parent]
    if aligned:
        own, before = (
            multiply(quat, link.rest.expand_as(quat)),
            multiply(before, links[link.parent].rest.expand_as(before)),
        )
    back = conjugate(before).unsqueeze(1)
    seen = rotate(back, pos - pos[:, parent].unsqueeze(1))  # [S, B, 3]
    turn = multiply(conjugate(link.quat).expand_as(own), multiply(back.expand_as(own), own))  # by the joint
    axis = torch.zeros(3, dtype=torch.float64) if link.axis is None else link.axis
    off = turn[..., 1:] - (turn[..., 1:] @ axis).unsqueeze(-1) * axis
    expected = link.offset + rotate(link.quat, link.anchor - rotate(turn, link.anchor.expand_as(seen)))
    fits = ((seen - expected).norm(dim=2).amax(dim=0) < _PLACE) & (2 * off.norm(dim=2).amax(dim=0) < _OFF_AXIS)
    return [body for body in fits.nonzero().squeeze(1).tolist() if body not in bodies]


def _angles(links: Sequence[Link], quat: Tensor, kinematics: Kinematics) -> Tensor:
    """Return the joint angles [F, J] of links with rotations [F, L, 4], in the turn that is nearest to the limits."""
    model = kinematics.model
    found = torch.zeros(len(quat), len(kinematics.joints), dtype=torch.float64)
    for number, link in enumerate(links):
        if link.axis is None:
            continue
        turn = multiply(
            conjugate(link.quat).expand(len(quat), 4), multiply(conjugate(quat[:, link.parent]), quat[:, number])
        )
        angle = 2 * torch.atan2(turn[:, 1:] @ link.axis, turn[:, 0])
        angle = angle + float(model.qpos0[model.jnt_qposadr[kinematics.joints[link.joint]]])
        angle = torch.as_tensor(np.unwrap(angle.numpy()))
        middle = kinematics.limits[link.joint].mean()
        found[:, link.joint] = angle - 2 * torch.pi * ((angle.mean() - middle) / (2 * torch.pi)).round()
    return found


def _equal(a: Match, b: Match) -> bool:
    """Return whether two readings are the same motion, seen from their first poses."""
    (pos_a, quat_a), (pos_b, quat_b) = (_from_first_pose(x.root_pos, x.root_quat) for x in (a, b))
    angles = torch.cat(((a.joint_pos - b.joint_pos).flatten(), (quat_a - quat_b).flatten()))
    return bool(angles.abs().max() < _ANGLE and (pos_a - pos_b).abs().max() < _PLACE)


def _from_first_pose(pos: Tensor, quat: Tensor) -> Tuple[Tensor, Tensor]:
    return rotate(conjugate(quat[0]), pos - pos[0]), multiply(conjugate(quat[:1]).expand_as(quat), quat)


def _upwards(
    source: Source, pos: Tensor, quat: Tensor, joint_pos: Tensor, legs: Legs, given: Given
) -> Tuple[Tensor, str]:
    """Return the rotation [4] that brings the axis of the world upwards along which the trunk is above the feet."""
    feet = legs.feet(joint_pos).position.mean(dim=1)
    above = -rotate(quat, feet).mean(dim=0)
    above = above / above.norm().clamp(min=1e-9)
    trunk = rotate(quat, torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64).expand(len(quat), 3)).mean(dim=0)
    shares = {up: (float(above @ _axis(up)), float(trunk @ _axis(up))) for up in UPS}
    up = given.up or max(shares, key=lambda name: sum(shares[name]))
    if not given.up and not (shares[up][0] > 0.85 and shares[up][1] > 0.5):
        raise ConventionError(f"{source.name} does not show which axis points up: add --up z or --up y")
    if not given.up and up != "z":
        refuse_lying(source, (pos, quat, joint_pos), up, legs)
    return up_quat(up), up


def _axis(up: str) -> Tensor:
    sign = -1.0 if up.startswith("-") else 1.0
    return sign * torch.tensor([float(up[-1] == axis) for axis in "xyz"], dtype=torch.float64)


def _columns(source: Source, joint_pos: Tensor, kinematics: Kinematics) -> List[str]:
    """Return notes on the columns of joint angles; one that no column holds is a ValueError."""
    assert source.joints is not None
    columns = torch.as_tensor(source.joints)
    notes, missing = [], []
    chosen: List[str] = []
    usual = True
    for j, name in enumerate(kinematics.joint_names):
        fits = []
        for (angles, unit), sign in itertools.product(ANGLES.items(), (1.0, -1.0)):
            error = (sign * unit * columns - joint_pos[:, j : j + 1]).abs().amax(dim=0)
            fits += [(float(error[i]), i, sign, angles) for i in (error < _ANGLE).nonzero().squeeze(1).tolist()]
        if not fits:
            missing.append(name)
            continue
        taken = [name.lstrip("-") for name in chosen]  # of columns that are equal, each is named once
        _, column, sign, angles = min(fits, key=lambda x: (str(x[1]) in taken, x[1] != j or x[2] < 0, x[0]))
        chosen.append(f"{'-' if sign < 0 else ''}{column}")
        usual = usual and column == j and sign > 0 and angles == "rad"
    if missing:
        raise ValueError(
            f"{source.name} contradicts itself: no column of its joint angles is that of {', '.join(missing)} by the "
            "poses of its bodies; write the file again with the program that made it"
        )
    if not usual:
        notes.append(f"columns of the joints in the order of the model: {', '.join(chosen)}")
    return notes


def match_places(source: Source, kinematics: Kinematics) -> List[Columns]:
    """Return the orders of joint columns with which the bodies of a file are where the links are in the trunk's frame.

    Joints that move no other link, such as the last of a leg, may be any of the columns that are left. Lengths are in
    metres, centimetres or millimetres, angles in radians or degrees.
    """
    assert source.body_pos is not None and source.joints is not None
    links = links_of(kinematics)
    count = len(source.body_pos)
    rows = np.unique(np.linspace(0, count - 1, min(_SAMPLES, count)).round().astype(int))
    place, joints = torch.as_tensor(source.body_pos[rows]), torch.as_tensor(source.joints[rows])
    children = [[k for k, link in enumerate(links) if link.parent == number] for number in range(len(links))]
    found: List[Dict[int, Tuple[int, float]]] = []
    for length, unit in itertools.product(LENGTHS.values(), ANGLES.values()):
        _search(links, children, place * length, joints * unit, found)
    if not found:
        raise ValueError(
            f"{source.name}: with no order of its joints and bodies are the bodies where those of this robot are; "
            "check --robot, or give --joints"
        )
    orders: List[Columns] = []
    for own in found:
        used = {column for column, _ in own.values()}
        open_joints = [j for j in range(len(kinematics.joints)) if j not in own]
        left = [column for column in range(joints.shape[1]) if column not in used]
        if len(left) > 8:
            raise ConventionError(f"{source.name} does not show the order of its joints: add --joints with their names")
        for choice in itertools.permutations(left, len(open_joints)):
            for signs in itertools.product((1.0, -1.0), repeat=len(open_joints)):
                whole = {**own, **{j: (c, s) for j, c, s in zip(open_joints, choice, signs)}}
                index = tuple(whole[j][0] for j in range(len(kinematics.joints)))
                orders.append(Columns(index, tuple(whole[j][1] for j in range(len(kinematics.joints)))))
    return orders


def _search(
    links: Sequence[Link],
    children: Sequence[Sequence[int]],
    place: Tensor,  # [S, B, 3] m in the trunk's frame
    joints: Tensor,  # [S, K] rad
    found: List[Dict[int, Tuple[int, float]]],
) -> None:
    """Add the orders of joints (column and sign by joint) that bring all links to bodies."""
    identity = torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64).expand(len(place), 4)
    order = [number for number in range(len(links)) if children[number]]

    def extend(
        step: int, poses: Dict[int, Tuple[Tensor, Tensor]], own: Dict[int, Tuple[int, float]], bodies: List[int]
    ) -> None:
        if step == len(order):
            if own not in found:
                found.append(own)
            return
        if len(found) >= _MOST_MATCHES:
            return
        number = order[step]
        link = links[number]
        pos, quat = poses[number]  # of the link before its own joint
        options: List[Tuple[Optional[Tuple[int, float]], Tensor]] = [(None, quat)]
        if link.axis is not None:
            taken = {column for column, _ in own.values()}
            options = []
            for column, sign in itertools.product(range(joints.shape[1]), (1.0, -1.0)):
                if column not in taken:
                    half = sign * joints[:, column : column + 1] / 2
                    turn = torch.cat((half.cos(), half.sin() * link.axis), dim=1)
                    options.append(((column, sign), multiply(quat, turn)))
        seen: List[Tensor] = []
        for choice, turned in options:
            if any((turned - other).abs().max() < 1e-6 for other in seen):
                continue  # the same motion, such as of columns that are equal
            places, used = {}, list(bodies)
            for child in children[number]:
                expected = pos + rotate(turned, links[child].offset.expand_as(pos))
                error = (place - expected.unsqueeze(1)).norm(dim=2).amax(dim=0)
                near = [b for b in error.argsort().tolist() if error[b] < _PLACE and b not in used]
                if not near:
                    break
                used.append(near[0])
                places[child] = (expected, multiply(turned, links[child].quat.expand_as(turned)))
            else:
                seen.append(turned)
                extend(step + 1, {**poses, **places}, {**own, link.joint: choice} if choice else own, used)

    root = place.new_zeros(len(place), 3)
    near = (place - root.unsqueeze(1)).norm(dim=2).amax(dim=0)
    extend(0, {0: (root, identity)}, {}, near.argsort().tolist()[:1] if float(near.min()) < _PLACE else [])
