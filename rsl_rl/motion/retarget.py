"""Bring a clip to another robot of the same kind, by inverse kinematics of its feet."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Sequence, Tuple

import torch
from torch import Tensor

from rsl_rl.motion.checks import NEAR, stretches_of
from rsl_rl.motion.clip import Clip
from rsl_rl.motion.edit import repeated
from rsl_rl.motion.gaits import places_of
from rsl_rl.motion.generate import Model, model_of
from rsl_rl.motion.kinematics import build_clip
from rsl_rl.motion.rotations import rotate, turn_between
from rsl_rl.robots import Robot
from rsl_rl.sim.kinematics import rotation_matrix


class Retargeted(NamedTuple):
    """A clip of another robot."""

    clip: Clip
    notes: Tuple[str, ...]


MAX_ERROR = 0.02
"""Largest error of a foot, as a share of the length of the legs, that needs no note."""


def retarget(clip: Clip, source: Robot, target: Robot) -> Retargeted:
    """Return a clip for another robot with as many feet at the same places.

    Lengths are scaled by the lengths of the standing legs, and times are kept. A foot moves about its place under the
    standing robot as it does on the source, and standing feet stay on the floor. The trunk keeps its rotation, and its
    height as a share of the standing height. Soles keep their rotation.
    """
    a, b = model_of(source), model_of(target)
    own, other = (places_of(model.body.home) for model in (a, b))
    if sorted(own) != sorted(other):
        raise ValueError(f"the robots have feet at {', '.join(own)} and at {', '.join(other)}; give robots of one kind")
    order = [own.index(place) for place in other]
    scale = b.height / a.height
    whole = repeated(clip, 3 * clip.length) if clip.loop else clip  # of which the middle round is taken
    pos, quat = whole.root_pos.double(), whole.root_quat.double()
    feet = a.legs.feet(whole.joint_pos.double())
    world = pos.unsqueeze(1) + rotate(quat.unsqueeze(1), feet.position)  # [F, feet, 3]
    heading = turn_between(torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64).expand_as(quat), quat)
    home_a, home_b = _home(a, heading)[:, order], _home(b, heading)
    level = torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64)
    start = pos[0] * level
    # a foot that stands stays where it is: its place follows from where the source's stands, not from the trunk
    moved = (world[:, order] - start) * scale
    lift = (world[:, order, 2] - a.legs.radius) * scale + b.legs.radius
    wide = _standing_offset(home_b - home_a * scale, lift - b.legs.radius)
    wanted = torch.cat((moved[..., :2] + wide[..., :2], lift.unsqueeze(2)), dim=2)
    root = (pos - start) * scale
    to_world = rotation_matrix(quat)
    rotation_a = to_world.unsqueeze(1) @ feet.rotation[:, order] @ a.legs.default_rotation[order].mT
    rotation = to_world.mT.unsqueeze(1) @ rotation_a @ b.legs.default_rotation
    notes: List[str] = []
    position = (wanted - root.unsqueeze(1)).unsqueeze(2) @ to_world.unsqueeze(1)
    joint_pos, error = b.legs.solve(position.squeeze(2), rotation, turning=0.02)
    far = error > MAX_ERROR * b.body.length
    if bool(far.any()):
        notes.append(
            f"in {int(far.sum())} of {len(far)} frames a foot is up to {100 * float(error.max()):.1f} cm away from "
            "where it should be; the legs do not reach further"
        )
    rows = slice(clip.num_frames - 1, 2 * clip.num_frames - 1) if clip.loop else slice(None)
    made = build_clip(b.kinematics, root[rows], quat[rows], joint_pos[rows], clip.fps, clip.name, clip.loop)
    return Retargeted(made, tuple(notes))


def _home(model: Model, heading: Tensor) -> Tensor:
    """Return where the feet of the standing robot are from under its trunk, for headings [F]: [F, feet, 3]."""
    c, s = heading.cos().unsqueeze(1), heading.sin().unsqueeze(1)
    x, y, _ = model.body.home.unbind(1)
    return torch.stack((c * x - s * y, s * x + c * y, torch.zeros_like(c * x)), dim=2)


def _standing_offset(offset: Tensor, height: Tensor) -> Tensor:
    """Return offsets [F, feet, 3] that change only while a foot is in the air, for its height [F, feet] [m].

    The offset of a standing foot is that of the middle of its stance. In the air it goes over to the next one.
    """
    found = offset.clone()
    frames = torch.arange(len(offset), dtype=torch.float64)
    for foot in range(offset.shape[1]):
        stances = stretches_of(height[:, foot] < NEAR)
        if not stances:
            continue
        keys: Dict[float, Tensor] = {}
        for first, last in stances:
            middle = offset[(first + last) // 2, foot]
            keys[float(first)], keys[float(last)] = middle, middle
        times = sorted(keys)
        found[:, foot] = _linear(frames, times, [keys[time] for time in times])
    return found


def _linear(frames: Tensor, times: Sequence[float], values: Sequence[Tensor]) -> Tensor:
    """Return values [F, 3] between keys, and those of the first and the last key outside."""
    keys, own = torch.tensor(times, dtype=torch.float64), torch.stack(list(values))
    after = torch.searchsorted(keys, frames).clamp(1, max(len(keys) - 1, 1))
    if len(keys) == 1:
        return own.expand(len(frames), 3)
    before = after - 1
    share = ((frames - keys[before]) / (keys[after] - keys[before])).clamp(0.0, 1.0).unsqueeze(1)
    return torch.lerp(own[before], own[after], share)
