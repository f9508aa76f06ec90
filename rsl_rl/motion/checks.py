"""Find what is wrong with a clip: numbers that are not finite, jumps, joint limits, feet in the floor or skating; and
mend it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, NamedTuple, Sequence, Tuple

import torch
from torch import Tensor

from rsl_rl.motion.clip import Clip
from rsl_rl.motion.edit import close_loop, gap_of_loop, moved_to
from rsl_rl.motion.kinematics import Kinematics, build_clip
from rsl_rl.motion.legs import Legs
from rsl_rl.motion.rotations import conjugate, multiply, rotate, slerp, to_vector
from rsl_rl.sim.kinematics import rotation_matrix

NEAR = 0.005
"""Height of a foot above the floor below which it counts as standing [m]."""

_TOUCHING = 3e-4  # height of a foot that touches the floor, in a clip without noise [m]

SKATING = 0.1
"""Speed of a standing foot that is reported [m/s]."""

DEEP = 0.005
"""Depth of a foot in the floor that is reported [m]."""

BEYOND = 0.01
"""Angle beyond a joint limit that is reported [rad]."""

UNIT = 0.01
"""Difference between the length of a quaternion and 1 that is reported."""

OPEN = 0.005
"""Difference between the heights of the ends of a loop that is reported [m]."""

FASTEST_JOINT, FASTEST_ROOT, FASTEST_TURN = 40.0, 10.0, 30.0
"""Rates between two frames that are reported as jumps [rad/s], [m/s] and [rad/s]."""

LONGEST_JUMP = 0.5
"""Longest time from a jump to the jump back [s]."""

FLOATING = 1.0
"""Time without any foot near the floor that is reported [s]."""


@dataclass(frozen=True)
class Finding:
    """A fault of a clip."""

    kind: str
    """nan, jump, limits, loop, floor, skating or floating."""
    frames: Tuple[Tuple[int, int], ...]
    """First and last frame of each stretch, counted from 0."""
    sentence: str
    """What is wrong and where."""


class Feet(NamedTuple):
    """Feet of a clip in the world."""

    position: Tensor  # [F, feet, 3] of their centres [m]
    speed: Tensor  # [F, feet] horizontal, the smaller of those to the frames before and after [m/s]
    standing: Tensor  # [F, feet] bool


def feet_of(clip: Clip, legs: Legs, near: float = NEAR) -> Feet:
    """Return where the feet of a clip are, and which stand: lower than ``near`` [m] above the floor at height 0."""
    local = legs.feet(clip.joint_pos.double()).position
    position = clip.root_pos.double().unsqueeze(1) + rotate(clip.root_quat.double().unsqueeze(1), local)
    steps = position[..., :2].diff(dim=0).norm(dim=2) * clip.fps
    after, before = (steps[:1], steps[-1:]) if clip.loop else (steps[-1:], steps[:1])
    speed = torch.minimum(torch.cat((steps, after)), torch.cat((before, steps)))
    return Feet(position, speed, position[..., 2] < legs.radius + near)


def check(clip: Clip, kinematics: Kinematics, legs: Legs) -> List[Finding]:
    """Return the faults of a clip, each with its frames; of one with numbers that are not finite, only that."""
    bad = _without_pose(clip.link_pos, clip.link_quat, clip.joint_pos)
    if not bool(bad.any()):
        rates = (clip.joint_vel, clip.link_vel, clip.link_ang_vel)
        bad = ~torch.cat([x.flatten(1) for x in rates], dim=1).isfinite().all(dim=1)
    if bool(bad.any()):
        return [_finding("nan", bad, "numbers are not finite, or quaternions do not have the length 1")]
    found = []
    fast = _fast_steps(clip.root_pos, clip.root_quat, clip.joint_pos, clip.fps)
    if bool(fast.any()):
        steps = clip.joint_pos.diff(dim=0).abs() * clip.fps
        root = clip.root_pos.diff(dim=0).norm(dim=1) * clip.fps
        name = clip.joint_names[int(steps.max(dim=0).values.argmax())]
        what = (
            f"rates to the next frame are up to {float(steps.max()):.0f} rad/s ({name}), and {float(root.max()):.1f} "
            "m/s of the trunk"
        )
        found.append(_finding("jump", fast, what))
    low, high = kinematics.limits.float().unbind(1)
    beyond = torch.maximum(low - clip.joint_pos, clip.joint_pos - high)  # [F, J]
    if bool((beyond > BEYOND).any()):
        joints = [name for name, own in zip(clip.joint_names, (beyond > BEYOND).any(dim=0).tolist()) if own]
        what = f"{', '.join(joints)} up to {float(beyond.max()):.2f} rad beyond the limits"
        found.append(_finding("limits", (beyond > BEYOND).any(dim=1), what))
    if clip.loop:
        height, turn, away = gap_of_loop(clip.root_pos, clip.root_quat, clip.joint_pos)
        angle = max(float(turn.norm()), float(away.abs().max()))
        if abs(float(height)) > OPEN or angle > BEYOND:
            ends = torch.zeros(clip.num_frames, dtype=torch.bool)
            ends[-1] = True
            what = f"the end of the loop is {100 * abs(float(height)):.1f} cm and {angle:.2f} rad from its start"
            found.append(_finding("loop", ends, what))
    feet = feet_of(clip, legs)
    depth = legs.radius - feet.position[..., 2]
    if bool((depth > DEEP).any()):
        what = f"{_named(legs, depth > DEEP)} up to {100 * float(depth.max()):.1f} cm in the floor"
        found.append(_finding("floor", (depth > DEEP).any(dim=1), what))
    skating = feet.standing & (feet.speed > SKATING)
    if bool(skating.any()):
        fastest = float(torch.where(skating, feet.speed, torch.zeros_like(feet.speed)).max())
        what = f"{_named(legs, skating)} slide on the floor at up to {fastest:.2f} m/s"
        found.append(_finding("skating", skating.any(dim=1), what))
    stretches = [(a, b) for a, b in stretches_of(~feet.standing.any(dim=1)) if b - a >= FLOATING * clip.fps]
    if stretches:
        height = float((feet.position[..., 2].amin(dim=1) - legs.radius).max())
        what = f"no foot touches the floor for over {FLOATING:g} s; the lowest is up to {100 * height:.1f} cm above it"
        found.append(Finding("floating", tuple(stretches), f"{_listed(stretches)}: {what}"))
    return found


def _without_pose(pos: Tensor, quat: Tensor, joint_pos: Tensor) -> Tensor:
    """Return which frames have numbers that are not finite, or quaternions [F, ..., 4] whose length is not 1."""
    finite = torch.cat([x.flatten(1) for x in (pos, quat, joint_pos)], dim=1).isfinite().all(dim=1)
    unit = ((quat.norm(dim=-1) - 1).abs() < UNIT).view(len(quat), -1).all(dim=1)
    return ~(finite & unit)


def _fast_steps(pos: Tensor, quat: Tensor, joint_pos: Tensor, fps: float) -> Tensor:
    """Return whether the step from each frame to the next one is a jump [F - 1]."""
    turn = to_vector(multiply(quat[1:], conjugate(quat[:-1]))).norm(dim=1)
    fast = (joint_pos.diff(dim=0).abs() * fps > FASTEST_JOINT).any(dim=1) | (turn * fps > FASTEST_TURN)
    return fast | (pos.diff(dim=0).norm(dim=1) * fps > FASTEST_ROOT)


def mend(clip: Clip, kinematics: Kinematics, legs: Legs, kinds: Sequence[str]) -> Clip:
    """Return a clip with faults of some kinds mended, in the order of MENDABLE.

    nan and jump: the frames are replaced by interpolation; a jump without a way back within LONGEST_JUMP becomes a
    slope. limits: angles are clamped. floor and floating: the whole clip is moved up or down until its lowest foot is
    on the floor. skating: a standing foot stays at its mean place by inverse kinematics, with a transition of 0.1 s.
    loop: the difference between the ends of a loop is spread over its frames, which every mended loop gets.

    A clip with frames without numbers is a ValueError unless nan or jump is mended.
    """
    unknown = set(kinds) - set(MENDABLE)
    if unknown:
        raise ValueError(f"{', '.join(sorted(unknown))} cannot be mended; known: {', '.join(MENDABLE)}")
    pos, quat, joint_pos = clip.root_pos.double(), clip.root_quat.double(), clip.joint_pos.double()
    bad = _without_pose(pos, quat, joint_pos)
    if bool(bad.any()) and not {"nan", "jump"} & set(kinds):
        raise ValueError(f"{_finding('nan', bad, 'numbers are not finite').sentence}; mend nan too")
    if "nan" in kinds or "jump" in kinds:
        pos, quat, joint_pos = _interpolate(pos, quat, joint_pos, clip, "jump" in kinds)
    if "limits" in kinds:
        low, high = kinematics.limits.unbind(1)
        joint_pos = torch.minimum(torch.maximum(joint_pos, low), high)
    if "floor" in kinds or "floating" in kinds:
        local = legs.feet(joint_pos).position
        height = (pos.unsqueeze(1) + rotate(quat.unsqueeze(1), local))[..., 2].min() - legs.radius
        pos = pos - height * torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
    if "skating" in kinds and clip.loop:
        rounds = _three_rounds(pos, quat, joint_pos)
        joint_pos = _hold_feet(*rounds, clip.fps, legs)[len(pos) - 1 : 2 * len(pos) - 1]
    elif "skating" in kinds:
        joint_pos = _hold_feet(pos, quat, joint_pos, clip.fps, legs)
    if clip.loop:
        pos, quat, joint_pos = close_loop(pos, quat, joint_pos)
    return build_clip(kinematics, pos, quat, joint_pos, clip.fps, clip.name, clip.loop)


MENDABLE = ("nan", "jump", "limits", "floor", "floating", "skating", "loop")
"""Kinds of faults that :func:`mend` mends."""


def _interpolate(
    pos: Tensor, quat: Tensor, joint_pos: Tensor, clip: Clip, jumps: bool
) -> Tuple[Tensor, Tensor, Tensor]:
    """Replace frames that are not finite, and with ``jumps`` those that the motion jumps to and back from."""
    good = ~_without_pose(pos, quat, joint_pos)
    if jumps:
        last = good[-1].clone()
        fast = _fast_steps(pos, quat, joint_pos, clip.fps).nonzero().squeeze(1).tolist()
        while fast:
            first = fast.pop(0)
            if fast and fast[0] - first <= LONGEST_JUMP * clip.fps:  # there and back
                good[first + 1 : fast.pop(0) + 1] = False
            else:  # there for good: the step becomes a slope
                good[max(first - 1, 1) : first + 3] = False
                good[-1] = last
    rows = good.nonzero().squeeze(1)
    if len(rows) < 2:
        raise ValueError(f"the clip '{clip.name}' has {len(rows)} frames without faults; it cannot be mended")
    frames = torch.arange(len(pos))
    after = torch.searchsorted(rows, frames).clamp(1, len(rows) - 1)
    a, b = rows[after - 1], rows[after]
    share = ((frames - a).double() / (b - a).double()).clamp(0.0, 1.0)
    values = torch.lerp(torch.cat((pos, joint_pos), dim=1)[a], torch.cat((pos, joint_pos), dim=1)[b], share[:, None])
    return values[:, :3], slerp(quat[a], quat[b], share), values[:, 3:]


def _three_rounds(pos: Tensor, quat: Tensor, joint_pos: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    """Return three rounds of a loop, one after the other; the middle one has neighbours on both sides."""
    all_pos, all_quat = pos, quat
    for _ in range(2):
        next_pos, next_quat = moved_to(pos, quat, all_pos[-1], all_quat[-1])
        all_pos, all_quat = torch.cat((all_pos, next_pos[1:])), torch.cat((all_quat, next_quat[1:]))
    return all_pos, all_quat, torch.cat((joint_pos, joint_pos[1:], joint_pos[1:]))


def _hold_feet(pos: Tensor, quat: Tensor, joint_pos: Tensor, fps: float, legs: Legs) -> Tensor:
    """Return joint angles with which each foot stays at one place while it is near the floor."""
    feet = legs.feet(joint_pos)
    world = pos.unsqueeze(1) + rotate(quat.unsqueeze(1), feet.position)
    wanted, width = world.clone(), max(1, round(0.1 * fps))
    for foot in range(world.shape[1]):
        low = stretches_of(world[:, foot, 2] < legs.radius + 2 * NEAR)
        change, weight = torch.zeros_like(world[:, foot, :2]), torch.zeros(len(world), dtype=torch.float64)
        for first, last in low:
            mean = world[first : last + 1, foot, :2].mean(dim=0)
            own = torch.arange(len(world), dtype=torch.float64)
            away = torch.maximum(first - own, own - last).clamp(min=0.0)
            share = (1 - away / width).clamp(min=0.0)
            better = share > weight
            change[better] = (share[:, None] * (mean - world[:, foot, :2]))[better]
            weight = torch.maximum(weight, share)
        wanted[:, foot, :2] += change
    to_trunk = rotation_matrix(quat).mT
    position = (to_trunk.unsqueeze(1) @ (wanted - pos.unsqueeze(1)).unsqueeze(3)).squeeze(3)
    solved, _ = legs.solve(position, feet.rotation, start=joint_pos)
    return solved


def footfalls(clip: Clip, legs: Legs) -> Dict[str, List[float]]:
    """Return for each foot of a loop the moment of touchdown, in cycles, and the duty factor.

    Feet that stand all the time have a duty factor of 1 and no touchdown. The clip is one cycle.
    """
    standing = feet_of(clip, legs, _TOUCHING).standing[:-1]
    count = len(standing)
    found = {}
    for i, name in enumerate(legs.foot_names):
        own = standing[:, i]
        landings = (own & ~own.roll(1)).nonzero().squeeze(1).tolist()
        found[name] = [float(own.double().mean()), *(row / count for row in landings)]
    return found


def _named(legs: Legs, mask: Tensor) -> str:
    """Return the names of the feet that a mask [F, feet] marks."""
    return ", ".join(name for name, own in zip(legs.foot_names, mask.any(dim=0).tolist()) if own)


def _finding(kind: str, mask: Tensor, what: str) -> Finding:
    stretches = tuple(stretches_of(mask))
    return Finding(kind, stretches, f"{_listed(stretches)}: {what}")


def stretches_of(mask: Tensor) -> List[Tuple[int, int]]:
    """Return the first and last row of each stretch of a mask [F]."""
    edges = torch.cat((torch.zeros(1), mask.float(), torch.zeros(1))).diff()
    starts, ends = (edges > 0).nonzero().squeeze(1).tolist(), (edges < 0).nonzero().squeeze(1).tolist()
    return [(a, b - 1) for a, b in zip(starts, ends)]


def _listed(stretches: Sequence[Tuple[int, int]]) -> str:
    """Return stretches in words; of many, the first ones."""
    shown = [f"{a}" if a == b else f"{a} to {b}" for a, b in stretches[:5]]
    more = f" and {len(stretches) - 5} more" if len(stretches) > 5 else ""
    return f"{'frame' if len(shown) == 1 and ' ' not in shown[0] else 'frames'} {', '.join(shown)}{more}"
