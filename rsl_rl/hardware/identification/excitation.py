"""Motions of a robot on a stand that tell as much as possible of its parameters, within limits.

Each joint follows a sum of sines about its pose. Many such motions are drawn, each is simulated with the model's
numbers, and its derivatives say how well each parameter would be determined. The chains of joints below a fixed trunk
do not influence each other, so that the best motion of each chain is taken. The second half of the draws varies the
best.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

import numpy as np

from rsl_rl.evaluation.doctor.replay import Motion, Replay
from rsl_rl.hardware.identification.fit import information_of
from rsl_rl.hardware.identification.parameters import LEVEL, Layout, layout_of
from rsl_rl.hardware.identification.recordings import Recording
from rsl_rl.hardware.identification.simulation import Piece, Worlds

FREQUENCIES = (0.1, 5.0)
"""Lowest and highest frequency [Hz]."""

_SINES, _FADE, _MARGIN = 7, 1.0, 0.1  # of each joint; [s] at both ends; to the limits of the joint [rad]
_COARSE = 0.005  # physics step of the search [s]
_ROUNDS = 20  # of making a motion smaller
_ENOUGH = 0.3  # half widths below this share of the useful one are as good as this


@dataclass(frozen=True)
class Excitation:
    """Joint targets of a robot on a stand."""

    period: float  # between two rows [s]
    targets: np.ndarray  # [T, J] in the policy's order and angles [rad]
    torque_share: float  # largest share of the torque limits that the model needs
    speed: float  # largest speed of a joint of the model [rad/s]
    undetermined: Tuple[str, ...]  # labels of parameters that it is not expected to determine


@dataclass(frozen=True)
class Limits:
    """Limits of an excitation."""

    amplitude: float = 0.4
    """Largest angle from the pose [rad]."""
    torque_share: float = 0.5
    """Largest share of the torque limits."""
    speed: float = 10.0
    """Largest speed of a joint [rad/s]."""


def design(
    description: Mapping[str, Any],
    model_path: Path,
    seconds: float = 20.0,
    period: float = 0.01,
    limits: Limits = Limits(),
    candidates: int = 12,
    seed: int = 0,
    progress: Callable[[str], None] = lambda line: None,
) -> Excitation:
    """Return the best excitation of some candidates."""
    replay = Replay(model_path, description, description["joint_names"], _COARSE)
    layout = layout_of(Worlds.nominal_of(replay), dict(description), float(replay.model.body_mass.sum()))
    worlds = Worlds(model_path, description, layout, True, _COARSE)
    worlds.with_gravity(np.array([0.0, 0.0, -1.0]))
    rng = np.random.default_rng(seed)
    time = np.arange(max(2, round(seconds / period))) * period
    chains = replay.legs()
    best = _draw(rng, len(description["joint_names"]))
    scores = np.full(len(chains), np.inf)
    for number in range(candidates):
        drawn = _draw(rng, len(best[0])) if 2 * number < candidates else _vary(rng, best)
        targets, _ = _within(_targets(drawn, time, description, limits), worlds, description, period, limits)
        own = _scores(_half_widths(targets, worlds, period), layout, chains)
        for i in np.flatnonzero(own < scores):
            for ours, theirs in zip(best, drawn):
                ours[chains[i]] = theirs[chains[i]]
            scores[i] = own[i]
        progress(f"motion {number + 1} of {candidates}: {np.exp(scores.mean()):.2f} of the useful width on average")
    targets, (share, speed) = _within(_targets(best, time, description, limits), worlds, description, period, limits)
    half = _half_widths(targets, worlds, period)
    undetermined = [one.label for one, x in zip(layout.parameters, half) if not one.is_determined(one.nominal, x)]
    return Excitation(period, targets, share, speed, tuple(undetermined))


def excitation_csv(excitation: Excitation, description: Mapping[str, Any]) -> bytes:
    """Return the rows of an excitation, in the angles of the robot [rad]."""
    signs, zeros = np.array(description.get("joint_signs", 1.0)), np.array(description.get("joint_zeros", 0.0))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["time [s]", *(f"target.{name} [rad]" for name in description["joint_names"])])
    for i, row in enumerate(signs * excitation.targets + zeros):
        writer.writerow([f"{i * excitation.period:.6f}", *(f"{x:.6f}" for x in row)])
    return text.getvalue().encode()


Sines = Tuple[np.ndarray, np.ndarray, np.ndarray]  # weights, frequencies [Hz] and phases, each [J, sines]


def _draw(rng: np.random.Generator, joints: int) -> Sines:
    shape = (joints, _SINES)
    low, high = np.log(FREQUENCIES)
    # one sine in each part of the range, so that each joint has slow and fast motions
    place = (np.arange(_SINES) + rng.random(shape)) / _SINES
    frequency = np.exp(low + (high - low) * place)
    weight = rng.uniform(0.3, 1.0, shape) / np.sqrt(frequency / FREQUENCIES[0])
    return weight, frequency, rng.uniform(0, 2 * np.pi, shape)


def _vary(rng: np.random.Generator, sines: Sines) -> Sines:
    weight, frequency, phase = sines
    return (
        weight * np.exp(rng.normal(0, 0.4, weight.shape)),
        np.clip(frequency * np.exp(rng.normal(0, 0.15, weight.shape)), *FREQUENCIES),
        phase + rng.normal(0, 0.7, weight.shape),
    )


def _targets(
    sines: Sines, time: np.ndarray, description: Mapping[str, Any], limits: Limits
) -> Tuple[np.ndarray, np.ndarray]:
    """Return the middle [J] and the motion about it [T, J], within the range of each joint."""
    weight, frequency, phase = sines
    wave = (weight * np.sin(2 * np.pi * frequency * time[:, None, None] + phase)).sum(axis=2)
    wave -= 0.5 * (wave.max(axis=0) + wave.min(axis=0))
    wave /= np.abs(wave).max(axis=0)
    pose = np.array(description["default_joint_pos"])
    size, middle = np.full(len(pose), limits.amplitude), pose.copy()
    if description.get("joint_limits") is not None:
        low, high = np.array(description["joint_limits"]).T
        size = np.minimum(size, np.maximum(0.0, 0.5 * (high - low) - _MARGIN))
        middle = np.clip(pose, low + _MARGIN + size, high - _MARGIN - size)
    fade = np.clip(np.minimum(time, time[-1] - time) / _FADE, 0.0, 1.0)[:, None]
    return middle, np.asarray(wave * size * fade)


def _within(
    motion: Tuple[np.ndarray, np.ndarray],
    worlds: Worlds,
    description: Mapping[str, Any],
    period: float,
    limits: Limits,
) -> Tuple[np.ndarray, Tuple[float, float]]:
    """Return targets [T, J] that keep the limits of torque and speed, and the largest share and speed."""
    middle, wave = motion
    stiffness, damping = worlds.gains
    most = np.array(description["torque_limits"])
    targets, share, speed = middle + wave, 0.0, 0.0
    for _ in range(_ROUNDS):
        targets = middle + wave
        simulated = _simulated(targets, worlds, period)
        late = np.concatenate((targets[:1], targets[:-1]))
        torque = np.abs(stiffness * (late - simulated.joint_pos) - damping * simulated.joint_vel).max(axis=0)
        fastest = np.abs(simulated.joint_vel).max(axis=0)
        share, speed = float((torque / most).max()), float(fastest.max())
        factor = np.minimum(
            1.0, np.minimum(limits.torque_share * most / torque, limits.speed / np.maximum(fastest, 1e-9))
        )
        if (factor > 0.999).all():
            break
        wave = wave * np.where(factor > 0.999, 1.0, 0.95 * factor)
    if share > 1.01 * limits.torque_share or speed > 1.01 * limits.speed:
        raise ValueError(
            f"the pose alone needs {100 * share:.1f} % of the torque limits, {100 * limits.torque_share:g} % are "
            "allowed: give a larger --torque_share, or a smaller --amplitude"
        )
    return targets, (share, speed)


def _recording(targets: np.ndarray, period: float, joint_pos: np.ndarray, joint_vel: np.ndarray) -> Recording:
    rows = len(targets)
    upright, zeros = np.tile([1.0, 0.0, 0.0, 0.0], (rows, 1)), np.zeros((rows, 3))
    motion = Motion(upright, zeros, None, joint_pos, joint_vel, targets)
    return Recording("excitation", np.arange(rows) * period, motion, ((0, rows),), period, False, None)


def _simulated(targets: np.ndarray, worlds: Worlds, period: float) -> Motion:
    """Return the motion of the model with targets [T, J], which starts at rest."""
    rest = np.tile(targets[0], (len(targets), 1))
    recording = _recording(targets, period, rest, np.zeros_like(rest))
    piece = Piece(recording, 0, len(targets))
    x = np.zeros(len(worlds.layout.parameters))
    (one,) = worlds.predict([piece], x, worlds.start_states([piece]), "none")
    positions = rest + one.residual[one.channel == 0].reshape(rest.shape)
    velocities = one.residual[one.channel == 1].reshape(rest.shape)
    return _recording(targets, period, positions, velocities).motion


def _half_widths(targets: np.ndarray, worlds: Worlds, period: float) -> np.ndarray:
    """Return the half widths of the intervals [P] that a log of the motion would give."""
    motion = _simulated(targets, worlds, period)
    piece = Piece(_recording(targets, period, motion.joint_pos, motion.joint_vel), 0, len(targets))
    x = np.zeros(len(worlds.layout.parameters))
    information = information_of(worlds.predict([piece], x, worlds.start_states([piece])), x)
    spread = np.array([one.spread for one in worlds.layout.parameters])
    return LEVEL * spread * np.sqrt(np.diag(np.linalg.inv(information + np.eye(len(x)))))


def _scores(half: np.ndarray, layout: Layout, chains: Sequence[Sequence[int]]) -> np.ndarray:
    """Return for each chain the mean logarithm of the half widths over the useful ones, the lower the better."""
    relative = {i: max(_ENOUGH, half[i] / one.useful) for i, one in enumerate(layout.parameters)}
    of_joints: Dict[int, List[float]] = {}
    for i, one in enumerate(layout.parameters):
        if one.kind != "torque_limit" and layout.sizes[one.kind] == sum(map(len, chains)):
            for place in one.places:
                of_joints.setdefault(place, []).append(float(np.log(relative[i])))
    return np.array([np.mean([x for joint in chain for x in of_joints[joint]]) for chain in chains])
