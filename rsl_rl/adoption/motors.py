"""Choose torque limits, gains and armature of motors from masses, leg length and the limits of the source."""

from __future__ import annotations

import math
from typing import Dict, List, NamedTuple, Tuple

from rsl_rl.adoption.links import LinkTree
from rsl_rl.adoption.mjcf import Motor

GRAVITY = 9.81

_GO2_REACH = 0.40
"""Length of a leg of the Unitree Go2 [m], on which the constants below were chosen."""

_STIFFNESS = 1.8
"""Gain of a leg with a ball foot, in units of the leg's torque scale per rad. The Go2, the A1, ANYmal and Solo are
trained with 1.1 to 1.9."""

_FLAT_STIFFNESS = 2.0
"""The same of a leg with a flat foot, at all joints: ankles alone must keep a biped from tipping over."""

_DAMPING_TIME = 0.025
"""Damping divided by stiffness, for a leg of the length of the Go2's [s]; it grows with the root of the length."""

_FLAT_DAMPING_TIME = 0.04
"""The same of a leg with a flat foot [s]."""

_PLAUSIBLE = 8.0
"""A torque limit of more than this times the torque scale is no limit of a motor."""

_DEFAULT_LIMIT = 2.0
"""Torque limit of motors for which the source has none, in units of the torque scale. The Go2 has 1.5 to 2.9."""

_ARMATURE = 4e-4
"""Armature per torque limit of motors for which the source has none [kg m^2 / (N m)]; 0.01 kg m^2 for the Go2."""


class MotorChoice(NamedTuple):
    """Motors by joint name, with the torque scale and remarks on guesses."""

    motors: Dict[str, Motor]
    torque_scale: float  # weight on one leg times the length of the leg [N m]
    notes: Tuple[str, ...]


def choose_motors(tree: LinkTree, reach: float, factor: float = 1.0) -> MotorChoice:
    """Return the motors of a robot with legs of length ``reach`` [m]; ``factor`` is that of all gains."""
    scale = tree.mass * GRAVITY * reach / len(tree.legs)
    growth = math.sqrt(reach / _GO2_REACH)
    feet = [link.foot for link in tree.links if link.foot is not None]
    flat = feet[0].is_flat
    stiffness = factor * scale * (_FLAT_STIFFNESS if flat else _STIFFNESS)
    time = growth * (_FLAT_DAMPING_TIME if flat else _DAMPING_TIME)
    motors: Dict[str, Motor] = {}
    guessed: List[str] = []
    for hinge in (hinge for link in tree.links for hinge in link.joints):
        effort = hinge.effort
        if effort is None or effort > _PLAUSIBLE * scale:
            effort = _DEFAULT_LIMIT * scale
            guessed.append(hinge.name)
        armature = max(hinge.armature, _ARMATURE * effort)
        motors[hinge.name] = Motor(_round(effort), _round(stiffness), _round(stiffness * time), _round(armature))
    notes = []
    if guessed:
        of = "all joints" if len(guessed) == len(motors) else ", ".join(guessed)
        limit = f"{_DEFAULT_LIMIT:g} times the torque scale"
        notes.append(f"torque limit of {of}: {limit}, because the source has none or a huge one")
    return MotorChoice(motors, scale, tuple(notes))


def _round(value: float) -> float:
    """Return a value with three digits."""
    return float(f"{value:.3g}")
