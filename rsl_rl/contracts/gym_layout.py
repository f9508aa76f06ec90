"""The observations of legged_gym and unitree_rl_gym, whose files give their number and not their order."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence

from rsl_rl.contracts.contract import Contract
from rsl_rl.contracts.draft import size_of, term

_COMMON = ("base_ang_vel", "gravity", "command", "joint_pos", "joint_vel", "action")
LAYOUTS: Mapping[int, Sequence[str]] = {
    12: ("base_lin_vel", *_COMMON),  # legged_gym
    11: (*_COMMON, "gait_clock"),  # humanoids of unitree_rl_gym
    9: _COMMON,  # without both
}
"""Order of the terms, by the size of the observation less three times the number of joints."""


def terms_of_size(size: int, joints: int, scales: Mapping[str, Any], where: str) -> List[Dict[str, Any]]:
    """Return the terms of an observation of a size."""
    layout = LAYOUTS.get(size - 3 * joints)
    if layout is None:
        known = ", ".join(str(3 * joints + more) for more in LAYOUTS)
        raise ValueError(
            f"{where}={size} of {joints} joints is none of {known}, so its terms are not known; give --set observations"
        )
    return [term(name, size_of(name, joints), scales.get(name, 1.0)) for name in layout]


def scales_of(contract: Contract, kind: str) -> Dict[str, Any]:
    """Return the scale of each term of a contract with one of the layouts; another one is a ValueError."""
    names = tuple(own.name for own in contract.observations)
    if names not in LAYOUTS.values():
        known = "; ".join(" ".join(layout) for layout in LAYOUTS.values())
        raise ValueError(f"observations: {kind} cannot carry {' '.join(names)}; it has: {known}")
    plain = ("gravity", "action", "gait_clock")
    for own in contract.observations:
        if own.history > 1 or own.clip is not None or (own.name in plain and own.scale != 1.0):
            raise ValueError(f"observations: {kind} cannot carry history, clip or scale of {own.name}")
    return {own.name: list(own.scale) if isinstance(own.scale, tuple) else own.scale for own in contract.observations}
