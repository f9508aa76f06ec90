"""Edit clips: resample, cut, mirror, join, repeat, and make a loop of one."""

from __future__ import annotations

from typing import Sequence, Tuple

import torch
from torch import Tensor

from rsl_rl.motion.clip import Clip, ClipSet
from rsl_rl.motion.importers.source import columns_of_names, plain_name
from rsl_rl.motion.kinematics import Kinematics, build_clip
from rsl_rl.motion.rotations import conjugate, from_vector, multiply, rotate, slerp, to_vector, turn_between
from rsl_rl.robots import Robot
from rsl_rl.utils.tensors import from_yaw


def resample(clip: Clip, kinematics: Kinematics, fps: float) -> Clip:
    """Return a clip at another frame rate; its length becomes the nearest whole number of frames, without changing it
    by more than half a frame."""
    count = max(2, round(clip.length * fps) + 1)
    place = torch.linspace(0, clip.num_frames - 1, count, dtype=torch.float64)
    index = place.long().clamp(max=clip.num_frames - 2)
    share = place - index
    pos, joints = (torch.lerp(x[index].double(), x[index + 1].double(), share[:, None]) for x in _moving(clip))
    quat = slerp(clip.root_quat[index].double(), clip.root_quat[index + 1].double(), share)
    return build_clip(kinematics, pos, quat, joints, fps, clip.name, clip.loop)


def cut(clip: Clip, kinematics: Kinematics, start: float, end: float) -> Clip:
    """Return the part of a clip between two times [s], at the nearest frames; it does not loop."""
    first, last = (round(time * clip.fps) for time in (start, end))
    if not 0 <= first < last < clip.num_frames:
        raise ValueError(f"{start:g} to {end:g} s is not a part of the clip '{clip.name}', which has {clip.length:g} s")
    rows = slice(first, last + 1)
    pos, joints = _moving(clip)
    return build_clip(kinematics, pos[rows], clip.root_quat[rows], joints[rows], clip.fps, clip.name)


def mirror(clip: Clip, kinematics: Kinematics, robot: Robot) -> Clip:
    """Return the left-right mirror image of a clip, with "mirrored" in its name."""
    signs = torch.tensor(robot.mirror_signs)
    joints = clip.joint_pos[:, list(robot.mirrored_joints)] * signs
    pos = clip.root_pos * torch.tensor([1.0, -1.0, 1.0])
    quat = clip.root_quat * torch.tensor([1.0, -1.0, 1.0, -1.0])
    return build_clip(kinematics, pos, quat, joints, clip.fps, f"{clip.name} mirrored", clip.loop)


def repeated(clip: Clip, seconds: float) -> Clip:
    """Return a loop as a clip without loop of a length [s]; a clip that does not loop is a ValueError."""
    if not clip.loop:
        raise ValueError(f"the clip '{clip.name}' does not loop, so it cannot be repeated")
    if not 0 < seconds <= 3600:
        raise ValueError(f"seconds is {seconds:g}; give up to 3600")
    time = torch.arange(max(2, round(seconds * clip.fps) + 1)) / clip.fps
    frame = ClipSet([clip], "cpu").at(torch.zeros(len(time), dtype=torch.long), time)
    return Clip(clip.name, clip.fps, clip.joint_names, clip.link_names, *frame, loop=False)


def on_model(clip: Clip, kinematics: Kinematics) -> Clip:
    """Return a clip with the joints and bodies of another model of the same robot, such as one with arms.

    Joints are found by their names; those that the clip does not have stay at 0. The trunks have the same frame.
    """
    columns = columns_of_names(kinematics.joint_names, clip.joint_names)
    if columns is None:
        missing = sorted({*map(plain_name, clip.joint_names)} - {*map(plain_name, kinematics.joint_names)})
        raise ValueError(f"the model does not have the joints {', '.join(missing) or 'of the clip once each'}")
    joints = torch.zeros(clip.num_frames, len(kinematics.joint_names))
    joints[:, list(columns)] = clip.joint_pos
    return build_clip(kinematics, clip.root_pos, clip.root_quat, joints, clip.fps, clip.name, clip.loop)


def join(clips: Sequence[Clip], kinematics: Kinematics, blend: float = 0.2) -> Clip:
    """Return clips one after the other, each moved over the floor and turned to where the one before ends.

    A clip that loops begins at the phase whose pose is nearest to the end of the one before. In the first ``blend``
    seconds of each clip the difference to that end fades.
    """
    if not clips:
        raise ValueError("no clip is given; name at least one")
    if len({clip.fps for clip in clips}) != 1:
        raise ValueError("clips of different frame rates cannot be joined; resample them to one")
    fps, width = clips[0].fps, max(1, round(blend * clips[0].fps))
    pos, quat, joints = (x.double() for x in (clips[0].root_pos, clips[0].root_quat, clips[0].joint_pos))
    for clip in clips[1:]:
        own = _from_phase(clip, joints[-1]) if clip.loop else (*_moving(clip), clip.root_quat)
        own_pos, own_joints, own_quat = (x.double() for x in own)
        own_pos, own_quat = moved_to(own_pos, own_quat, pos[-1], quat[-1])
        fade = (1 - torch.arange(len(own_pos), dtype=torch.float64) / width).clamp(min=0.0)
        fade = (fade**2 * (3 - 2 * fade)).unsqueeze(1)
        own_joints = own_joints + fade * (joints[-1] - own_joints[0])
        own_pos = own_pos + fade * (pos[-1] - own_pos[0])
        apart = to_vector(multiply(quat[-1], conjugate(own_quat[0])))
        own_quat = multiply(from_vector(fade * apart), own_quat)
        pos, quat, joints = (torch.cat((a, b[1:])) for a, b in ((pos, own_pos), (quat, own_quat), (joints, own_joints)))
    return build_clip(kinematics, pos, quat, joints, fps, " + ".join(clip.name for clip in clips))


def make_loop(clip: Clip, kinematics: Kinematics, shortest: float = 0.4, longest: float = 4.0) -> Clip:
    """Return the part of a clip that loops best: whose end has the pose and rates of its start, that is, its phase.

    What is left of a difference is spread evenly over the loop. Lengths are in seconds.
    """
    fewest, most = max(2, round(shortest * clip.fps)), min(clip.num_frames - 1, round(longest * clip.fps))
    if fewest > most:
        raise ValueError(f"the clip '{clip.name}' has {clip.length:g} s, less than the shortest loop of {shortest:g} s")
    features = torch.cat((clip.joint_pos, 0.1 * clip.joint_vel, 5 * clip.root_pos[:, 2:], 5 * _up(clip)), dim=1)
    best: Tuple[float, int, int] = (float("inf"), 0, fewest)
    for count in range(fewest, most + 1):
        apart = (features[count:] - features[:-count]).square().sum(dim=1)
        row = int(apart.argmin())
        # a little more for longer ones, so that of several rounds the first is taken
        best = min(best, (float(apart[row]) + 1e-4 * count, row, count))
    _, start, count = best
    rows = slice(start, start + count + 1)
    pos, quat, joints = clip.root_pos[rows].double(), clip.root_quat[rows].double(), clip.joint_pos[rows].double()
    pos, quat, joints = close_loop(pos, quat, joints)
    return build_clip(kinematics, pos, quat, joints, clip.fps, clip.name, loop=True)


def gap_of_loop(pos: Tensor, quat: Tensor, joint_pos: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    """Return what the last frame lacks to be the first one, moved over the floor and turned about the vertical: height
    [m], rotation vector [3] rad in the world, and joint angles [J] rad."""
    turn = from_yaw(turn_between(quat[0], quat[-1]))
    rotation = to_vector(multiply(multiply(turn, quat[0]), conjugate(quat[-1])))
    return pos[0, 2] - pos[-1, 2], rotation, joint_pos[0] - joint_pos[-1]


def close_loop(pos: Tensor, quat: Tensor, joint_pos: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    """Return positions [F, 3], rotations [F, 4] and joint angles [F, J] with the gap of the loop spread evenly."""
    height, rotation, joints = gap_of_loop(pos, quat, joint_pos)
    share = torch.linspace(0, 1, len(pos), dtype=pos.dtype).unsqueeze(1)
    pos = pos + share * height * torch.tensor([0.0, 0.0, 1.0], dtype=pos.dtype)
    return pos, multiply(from_vector(share * rotation), quat), joint_pos + share * joints


def _moving(clip: Clip) -> Tuple[Tensor, Tensor]:
    return clip.root_pos, clip.joint_pos


def _up(clip: Clip) -> Tensor:
    """Return the vertical in the trunk's frame [F, 3]."""
    return rotate(conjugate(clip.root_quat), torch.tensor([0.0, 0.0, 1.0]).expand(clip.num_frames, 3))


def _from_phase(clip: Clip, joint_pos: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    """Return positions, angles and rotations of one round of a loop from the frame that is nearest to a pose [J]."""
    start = int((clip.joint_pos[:-1].double() - joint_pos).square().sum(dim=1).argmin())
    time = (start + torch.arange(clip.num_frames)) / clip.fps
    frame = ClipSet([clip], "cpu").at(torch.zeros(len(time), dtype=torch.long), time)
    return frame.link_pos[:, 0], frame.joint_pos, frame.link_quat[:, 0]


def moved_to(pos: Tensor, quat: Tensor, start: Tensor, heading: Tensor) -> Tuple[Tensor, Tensor]:
    """Return a motion moved over the floor and turned so that it starts at a place [3] with a heading of [4]."""
    turn = from_yaw(turn_between(quat[0], heading))
    level = torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64)
    pos = rotate(turn, pos - pos[0] * level) + start * level
    return pos, multiply(turn.expand_as(quat), quat)
