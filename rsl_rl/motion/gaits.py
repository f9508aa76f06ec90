"""Gaits: when which foot is on the floor, and how the trunk moves above the feet.

Sources: M. Hildebrand, The quadrupedal gaits of vertebrates, BioScience 39 (1989), for the order of footfalls and for
duty factors; S. Kajita et al., The 3D linear inverted pendulum mode, IROS 2001, for the trunk above the feet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Dict, Mapping, NamedTuple, Tuple

import torch
from torch import Tensor

from rsl_rl.motion.rotations import turned

GRAVITY = 9.81
"""[m/s^2]"""

QUADRUPED, BIPED = ("FL", "FR", "RL", "RR"), ("L", "R")
"""Places of feet: front or rear, and left or right."""


@dataclass(frozen=True)
class Gait:
    """A gait by the places of feet. Sizes without a unit are shares: of a cycle, of the leg's length L, of
    sqrt(L / g), or of sqrt(g L)."""

    touchdown: Mapping[str, float]
    """Moment at which each foot lands, in cycles."""
    duty: float
    """Share of a cycle in which a foot is on the floor."""
    period: float
    """Time of a cycle / sqrt(L / g), at low speed."""
    speed: float
    """Forward speed / sqrt(g L) unless one is given."""
    lift: float = 0.2
    """Height of a step / L."""
    pitching: float = 0.0
    """Share of the moment of the feet's forces that pitches the trunk; the rest acts through the centre of mass."""


def _gait(touchdown: Tuple[float, ...], **values: float) -> Gait:
    return Gait(dict(zip(QUADRUPED if len(touchdown) == 4 else BIPED, touchdown)), **values)


GAITS: Dict[str, Gait] = {
    "walk": _gait((0.25, 0.75, 0.0, 0.5), duty=0.65, period=4.6, speed=0.2),  # lateral sequence: RL, FL, RR, FR
    "trot": _gait((0.0, 0.5, 0.5, 0.0), duty=0.55, period=3.0, speed=0.3),
    "pace": _gait((0.0, 0.5, 0.0, 0.5), duty=0.55, period=2.7, speed=0.3),
    "bound": _gait((0.5, 0.5, 0.0, 0.0), duty=0.4, period=2.4, speed=0.4, pitching=0.5),
    "pronk": _gait((0.0, 0.0, 0.0, 0.0), duty=0.5, period=2.0, speed=0.2, lift=0.1),
    "gallop": _gait((0.5, 0.6, 0.0, 0.1), duty=0.35, period=2.3, speed=0.8, pitching=0.5),  # transverse, right lead
}
"""Gaits of quadrupeds."""

BIPED_GAITS: Dict[str, Gait] = {
    "walk": _gait((0.0, 0.5), duty=0.6, period=3.2, speed=0.2, lift=0.1),
    "march": _gait((0.0, 0.5), duty=0.6, period=3.2, speed=0.0, lift=0.15),
    "side_step": _gait((0.0, 0.5), duty=0.6, period=3.2, speed=0.0, lift=0.1),
}
"""Gaits of bipeds."""

_MAX_STROKE = 0.9  # of a foot under the trunk / L; faster cycles keep it

_MIN_PERIOD = 1.1  # / sqrt(L / g)

_MAX_PITCH = 0.12  # amplitude [rad]

_FINE = 16  # samples between frames, for the motion of the trunk

_STILL = 0.15  # share of a swing at its start and at its end in which the foot moves up and down only


class Schedule(NamedTuple):
    """A gait of a robot at a speed."""

    touchdown: Tensor  # [F] in cycles
    duty: float
    period: float  # [s], a whole number of frames
    frames: int  # in a cycle
    lift: float  # [m]
    velocity: Tuple[float, float, float]  # forward, left [m/s], yaw rate [rad/s]


class Body(NamedTuple):
    """Size and mass of a robot as far as a gait needs them."""

    home: Tensor  # [F, 3] feet of the standing robot in the frame of its heading [m]
    length: float  # of the standing legs [m]
    pitch_inertia: float  # inertia about the left axis / mass [m^2]


class Track(NamedTuple):
    """Where trunk and feet are in S frames, in the world."""

    root_pos: Tensor  # [S, 3]
    root_yaw: Tensor  # [S]
    root_pitch: Tensor  # [S]
    foot_pos: Tensor  # [S, F, 3] centres
    foot_yaw: Tensor  # [S, F]


def places_of(home: Tensor) -> Tuple[str, ...]:
    """Return the place of each foot [F, 3]; anything but two or four feet is a ValueError."""
    if len(home) not in (2, 4):
        raise ValueError(f"the robot has {len(home)} feet; motions are generated for two or four")
    front = home[:, 0] > home[:, 0].mean()
    names = [
        ("F" if ahead else "R") * (len(home) == 4) + ("L" if side > 0 else "R")
        for ahead, side in zip(front.tolist(), home[:, 1].tolist())
    ]
    if sorted(names) != sorted(QUADRUPED if len(home) == 4 else BIPED):
        raise ValueError(f"the feet of the robot are at {', '.join(names)}; front and rear, left and right are needed")
    return tuple(names)


def schedule(gait: Gait, body: Body, velocity: Tuple[float, float, float], fps: float) -> Schedule:
    """Return a gait at a velocity: forward, left [m/s] and yaw rate [rad/s]. Faster than a leg's stroke is a
    ValueError."""
    unit = math.sqrt(body.length / GRAVITY)  # [s]
    vx, vy, rate = velocity
    reach = float(body.home[:, :2].norm(dim=1).max())
    fastest = math.hypot(vx, vy) + abs(rate) * reach
    period = gait.period * unit
    if fastest > 0:
        period = min(period, _MAX_STROKE * body.length / (fastest * gait.duty))
    if period < _MIN_PERIOD * unit:
        most = _MAX_STROKE * body.length / (gait.duty * _MIN_PERIOD * unit)
        raise ValueError(
            f"a speed of {fastest:.2f} m/s is too fast for these legs in this gait; give at most {most:.1f}"
        )
    frames = max(6, round(period * fps))
    offsets = torch.tensor([gait.touchdown[place] for place in places_of(body.home)], dtype=torch.float64)
    return Schedule(offsets, gait.duty, frames / fps, frames, gait.lift * body.length, velocity)


def track(gait: Gait, plan: Schedule, body: Body, height: float, cycles: int) -> Track:
    """Return cycles of a gait with the trunk at a mean height [m], the closing frame included.

    A standing foot pushes with a force that is the square root of half a sine. The vertical acceleration of the trunk
    follows from the sum of forces; the horizontal one is that of a linear inverted pendulum above the point where they
    act. Both are solved for periodic motions, harmonic by harmonic.
    """
    count = plan.frames * _FINE
    phase = torch.arange(count, dtype=torch.float64) / count
    turns = (phase.unsqueeze(1) - plan.touchdown) % 1.0  # [count, F]
    force = torch.where(
        turns < plan.duty, (math.pi * turns / plan.duty).sin().clamp(min=0).sqrt(), torch.zeros_like(turns)
    )
    force = force / force.sum(dim=1).mean()  # in body weights
    since = (turns - plan.duty / 2) * plan.period  # [s] since the middle of the stance
    feet = _seen(body.home, plan.velocity, since)  # [count, F, 2] from the trunk's mean motion
    moment = (force.unsqueeze(2) * feet).sum(dim=1)  # [count, 2]
    moment = moment - moment.mean(dim=0)
    omega = 2 * math.pi * torch.fft.rfftfreq(count, plan.period / count, dtype=torch.float64)
    pendulum = GRAVITY / height
    share = torch.tensor([1 - gait.pitching, 1.0], dtype=torch.float64)
    sway = _filtered(moment * share, (pendulum / (pendulum + omega**2)).unsqueeze(1))
    inverse = torch.where(omega > 0, -1 / omega.clamp(min=1e-9) ** 2, torch.zeros_like(omega))
    bounce = _filtered(GRAVITY * (force.sum(dim=1) - 1), inverse)
    pitch = _filtered(-gait.pitching * GRAVITY / body.pitch_inertia * moment[:, 0], inverse)
    pitch = pitch * min(1.0, _MAX_PITCH / max(float(pitch.abs().max()), 1e-9))
    frames = torch.arange(cycles * plan.frames + 1)
    rows, time = (frames % plan.frames) * _FINE, frames.double() * plan.period / plan.frames
    place, yaw = path(plan.velocity, time)
    root = torch.cat((place + turned(sway[rows], yaw), (height + bounce[rows]).unsqueeze(1)), dim=1)
    foot_pos, foot_yaw = _steps(plan, body, time)
    return Track(root, yaw, pitch[rows], foot_pos, foot_yaw)


def path(velocity: Tuple[float, float, float], time: Tensor) -> Tuple[Tensor, Tensor]:
    """Return place [..., 2] and heading [...] at times [...] of a constant velocity that starts at 0 along x."""
    vx, vy, rate = velocity
    angle = rate * time
    along = time * torch.sinc(angle / math.pi)  # the integral of the cosine
    across = time * torch.sinc(angle / (2 * math.pi)) * (angle / 2).sin()  # and of the sine
    return torch.stack((vx * along - vy * across, vx * across + vy * along), dim=-1), angle


def swing_blend(swing: Tensor) -> Tensor:
    """Return the share of the way of a step, 0 to 1, for the share of its time; it is smooth, and still at the ends."""
    s = ((swing - _STILL) / (1 - 2 * _STILL)).clamp(0.0, 1.0)
    return s**3 * (10 - 15 * s + 6 * s**2)


def _seen(home: Tensor, velocity: Tuple[float, float, float], since: Tensor) -> Tensor:
    """Return points of the floor that are at ``home`` [F, 3] at time 0, seen at times [S, F] from the moving trunk."""
    place, angle = path(velocity, since)
    return turned(home[:, :2] - place, -angle)


def _filtered(values: Tensor, gain: Tensor) -> Tensor:
    """Multiply the harmonics of periodic values [count, ...] by a gain."""
    return torch.fft.irfft(torch.fft.rfft(values, dim=0) * gain, n=len(values), dim=0)


def _steps(plan: Schedule, body: Body, time: Tensor) -> Tuple[Tensor, Tensor]:
    """Return places [S, F, 3] and yaw [S, F] of the feet, which stand still from touchdown to lift-off."""
    turns = time.unsqueeze(1) / plan.period - plan.touchdown
    number = (turns + 1e-9).floor()  # of the cycle of each foot
    swing = ((turns - number - plan.duty) / (1 - plan.duty)).clamp(0.0, 1.0)
    middle = (number + plan.touchdown + plan.duty / 2) * plan.period  # [S, F] s

    def hold(at: Tensor) -> Tuple[Tensor, Tensor]:
        place, yaw = path(plan.velocity, at)
        return place + turned(body.home[:, :2].expand(*at.shape, 2), yaw), yaw

    (old, old_yaw), (new, new_yaw) = hold(middle), hold(middle + plan.period)
    blend = swing_blend(swing)
    place = old + (new - old) * blend.unsqueeze(2)
    up = body.home[:, 2] + plan.lift * 16 * (swing * (1 - swing)) ** 2
    return torch.cat((place, up.unsqueeze(2)), dim=2), old_yaw + (new_yaw - old_yaw) * blend
