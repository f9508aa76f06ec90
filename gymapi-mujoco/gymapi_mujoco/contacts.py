"""How shapes touch: MuJoCo's parameters of contacts, from friction and restitution."""

# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import os
from typing import Tuple

import mujoco
import numpy as np

CONTACT_TIME = 0.01
"""Time constant of contacts that do not bounce [s]. MuJoCo needs at least two time steps."""

CONTACT_IMPEDANCE = 0.999
"""Impedance of contacts (the first two numbers of ``solimp``). The higher it is, the less a shape below its friction
limit creeps: the feet of a standing Go2 slide apart by 1 cm/s with MuJoCo's default, 0.9 to 0.95."""

VARIABLE = "GYMAPI_MUJOCO_CONE"
_CONES = {"pyramidal": mujoco.mjtCone.mjCONE_PYRAMIDAL, "elliptic": mujoco.mjtCone.mjCONE_ELLIPTIC}

_DAMPING_RATIOS = np.append(np.geomspace(1e-4, 0.99, 400), 1.0)
# A mass on a spring with a damper leaves it when the force, which cannot pull, is zero.
_DECAY = _DAMPING_RATIOS[:-1] / np.sqrt(1 - _DAMPING_RATIOS[:-1] ** 2)
_RESTITUTIONS = np.append(np.exp(-_DECAY * np.arccos(2 * _DAMPING_RATIOS[:-1] ** 2 - 1)), np.exp(-2))


def friction_cone() -> mujoco.mjtCone:
    """Return the cone that ``GYMAPI_MUJOCO_CONE`` names."""
    wanted = os.environ.get(VARIABLE, "pyramidal")
    if wanted not in _CONES:
        raise ValueError(f"{VARIABLE}={wanted}; give {' or '.join(_CONES)}")
    return _CONES[wanted]


SOFT = 1e-3
"""Impedance of a spring: nothing of the body's other acceleration is taken away."""


def spring(stiffness: float, damping: float, timestep: float) -> Tuple[Tuple[float, float], float]:
    """Return ``solref`` and impedance of a constraint with stiffness and damping per mass [1/s^2, 1/s]: a spring with
    a damper where the time step resolves it, else a constraint as hard as that of contacts."""
    if stiffness * timestep**2 + damping * timestep < 0.25:
        return (-stiffness, -damping), SOFT
    return (2 * timestep, 1.0), CONTACT_IMPEDANCE


def solref(restitution: np.ndarray, timestep: float) -> np.ndarray:
    """Return time constant [s] and damping ratio [..., 2] of contacts with a restitution [...].

    The natural frequency is that of a contact that does not bounce, so the time step resolves every contact.
    """
    restitution = np.clip(restitution, 0.0, 1.0)
    ratio = np.interp(restitution, _RESTITUTIONS[::-1], _DAMPING_RATIOS[::-1])
    return np.stack([max(2 * timestep, CONTACT_TIME) / ratio, ratio], axis=-1)
