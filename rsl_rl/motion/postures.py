"""Motions on the spot by keyframes of the trunk: sit, stand up, lie down, bow, hop, squat."""

from __future__ import annotations

import math
from typing import Callable, Dict, List, NamedTuple, Sequence, Tuple

import torch
from torch import Tensor

from rsl_rl.motion.gaits import GRAVITY, Body, Track


class Key(NamedTuple):
    """A pose of the trunk at a time."""

    time: float  # [s]
    front: float  # height above the front feet / standing height
    rear: float  # height above the rear feet / standing height
    pitch: float = 0.0  # of the trunk, for robots with feet side by side [rad]


LOW = 0.0
"""Height of a key that stands for the lowest height that the legs and the trunk allow."""

KEYS: Dict[str, Tuple[Key, ...]] = {
    "stand": (Key(0.0, 1.0, 1.0), Key(2.0, 1.0, 1.0)),
    "sit": (Key(0.0, 1.0, 1.0), Key(0.3, 1.0, 1.0), Key(1.5, 1.0, 0.55), Key(2.5, 1.0, 0.55)),
    "sit_up": (Key(0.0, 1.0, 0.55), Key(0.5, 1.0, 0.55), Key(1.7, 1.0, 1.0), Key(2.5, 1.0, 1.0)),
    "stand_up": (Key(0.0, LOW, LOW), Key(0.5, LOW, LOW), Key(2.0, 1.0, 1.0), Key(3.0, 1.0, 1.0)),
    "lie_down": (Key(0.0, 1.0, 1.0), Key(0.5, 1.0, 1.0), Key(2.0, LOW, LOW), Key(3.0, LOW, LOW)),
    "bow": (Key(0.0, 1.0, 1.0), Key(0.3, 1.0, 1.0), Key(1.3, 0.6, 1.0), Key(2.0, 0.6, 1.0), Key(3.0, 1.0, 1.0)),
}
"""Motions of quadrupeds with feet that stay where they are."""

BIPED_KEYS: Dict[str, Tuple[Key, ...]] = {
    "stand": KEYS["stand"],
    "squat": (
        Key(0.0, 1.0, 1.0),
        Key(0.4, 1.0, 1.0),
        Key(1.6, 0.75, 0.75, 0.25),
        Key(2.2, 0.75, 0.75, 0.25),
        Key(3.4, 1.0, 1.0),
        Key(3.8, 1.0, 1.0),
    ),
    "bow": (
        Key(0.0, 1.0, 1.0),
        Key(0.4, 1.0, 1.0),
        Key(1.6, 0.97, 0.97, 0.4),
        Key(2.2, 0.97, 0.97, 0.4),
        Key(3.4, 1.0, 1.0),
    ),
}
"""Motions of bipeds with feet that stay where they are."""


def hold(keys: Sequence[Key], body: Body, height: float, lowest: float, fps: float) -> Track:
    """Return keyframes of the trunk above feet that stand still; between keys the jerk is smallest.

    ``height`` is that of the standing trunk and ``lowest`` the share of it that stands for LOW.
    """
    time = torch.arange(round(keys[-1].time * fps) + 1, dtype=torch.float64) / fps
    values = [[lowest if x == LOW else x for x in key[1:3]] + [key.pitch] for key in keys]
    front, rear, own_pitch = _interpolated([key.time for key in keys], values, time).unbind(1)
    x, middle = body.home[:, 0], body.home[:, 0].mean()
    ahead = x > middle + 1e-6
    if bool(ahead.any()) and len(x) > 2:  # the trunk turns about the line between the hips
        before, behind = float(x[ahead].mean()), float(x[~ahead].mean())
        pitch = torch.asin(((rear - front) * height / (before - behind)).clamp(-0.9, 0.9))
        lift = (front * -behind + rear * before) / (before - behind) * height
    else:
        pitch, lift = own_pitch, front * height
    zero = torch.zeros_like(time)
    return Track(
        torch.stack((zero, zero, lift), dim=1),
        zero,
        pitch,
        body.home.expand(len(time), -1, -1),
        zero.unsqueeze(1).expand(-1, len(x)),
    )


def hop(body: Body, height: float, fps: float, rise: float = 0.25, crouch: float = 0.25) -> Track:
    """Return a hop on the spot: crouch, push, flight on a parabola, landing, standing.

    ``rise`` is the height of the flight and ``crouch`` the depth, as shares of the legs' length.
    """
    speed = math.sqrt(2 * GRAVITY * rise * body.length)  # at take-off [m/s]
    low = height - crouch * body.length
    flight, push = 2 * speed / GRAVITY, 2.2 * crouch * body.length / speed
    segments: List[Tuple[float, Tuple[float, float, float], Tuple[float, float, float]]] = [
        (0.3, (height, 0.0, 0.0), (height, 0.0, 0.0)),
        (0.5, (height, 0.0, 0.0), (low, 0.0, 0.0)),
        (push, (low, 0.0, 0.0), (height, speed, -GRAVITY)),
        (flight, (height, speed, -GRAVITY), (height, -speed, -GRAVITY)),
        (push, (height, -speed, -GRAVITY), (low, 0.0, 0.0)),
        (0.5, (low, 0.0, 0.0), (height, 0.0, 0.0)),
        (0.4, (height, 0.0, 0.0), (height, 0.0, 0.0)),
    ]
    times = [0.0]
    for duration, _, _ in segments:
        times.append(times[-1] + duration)
    time = torch.arange(round(times[-1] * fps) + 1, dtype=torch.float64) / fps
    lift = torch.full_like(time, height)
    for (duration, start, end), begin in zip(segments, times):
        inside = (time >= begin) & (time <= begin + duration)
        lift[inside] = _quintic(start, end, duration)(time[inside] - begin)
    air = ((time - times[3]) / flight).clamp(0.0, 1.0)
    feet = body.home.expand(len(time), -1, -1).clone()
    feet[:, :, 2] += (lift - height).clamp(min=0.0).unsqueeze(1) * ((air > 0) & (air < 1)).unsqueeze(1)
    zero = torch.zeros_like(time)
    return Track(torch.stack((zero, zero, lift), dim=1), zero, zero, feet, zero.unsqueeze(1).expand(-1, len(body.home)))


def _interpolated(times: Sequence[float], values: Sequence[Sequence[float]], time: Tensor) -> Tensor:
    """Return values [S, K] at times [S] between keys, by polynomials of fifth order that rest at the keys."""
    key_times, keys = torch.tensor(times, dtype=torch.float64), torch.tensor(values, dtype=torch.float64)
    index = (torch.searchsorted(key_times, time, right=True) - 1).clamp(0, len(times) - 2)
    share = ((time - key_times[index]) / (key_times[index + 1] - key_times[index])).clamp(0.0, 1.0)
    blend = (share**3 * (10 - 15 * share + 6 * share**2)).unsqueeze(1)
    return keys[index] + (keys[index + 1] - keys[index]) * blend


def _quintic(
    start: Tuple[float, float, float], end: Tuple[float, float, float], duration: float
) -> Callable[[Tensor], Tensor]:
    """Return the polynomial of fifth order with given values, rates and second derivatives at both ends."""
    rows = []
    for t in (0.0, duration):
        rows.append([t**k for k in range(6)])
        rows.append([k * t ** max(k - 1, 0) for k in range(6)])
        rows.append([k * (k - 1) * t ** max(k - 2, 0) for k in range(6)])
    matrix, right = torch.tensor(rows, dtype=torch.float64), torch.tensor([*start, *end], dtype=torch.float64)
    factors = torch.linalg.solve(matrix, right)
    return lambda time: sum((factors[k] * time**k for k in range(6)), torch.zeros_like(time))
