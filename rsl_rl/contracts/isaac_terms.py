"""What the files of Isaac Lab and of unitree_rl_lab, which is built on it, say in the same way: the settings of
observation terms, and the ranges of commands."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional

from rsl_rl.config.mdp import MAX_HISTORY
from rsl_rl.contracts.contract import Contract, Term
from rsl_rl.contracts.draft import known_term, numbers, size_of, term
from rsl_rl.utils.config_io import short_repr

TERMS = {
    "base_lin_vel": "base_lin_vel",
    "base_ang_vel": "base_ang_vel",
    "projected_gravity": "gravity",
    "joint_pos_rel": "joint_pos",
    "joint_vel_rel": "joint_vel",
    "last_action": "action",
}
"""Names of observation terms in both, and ours."""
_RANGES = ("lin_vel_x", "lin_vel_y", "ang_vel_z")


def read_term(
    name: Any, terms: Mapping[str, str], joints: int, settings: Mapping[str, Any], where: str
) -> Dict[str, Any]:
    """Return a term with these settings, scale, clip and history_length; ``where`` is their place in the file."""
    scale, clip, history = settings.get("scale"), settings.get("clip"), settings.get("history_length") or 1
    ours = known_term(name, terms, where)
    size, place = size_of(ours, joints), f"{where}.{name}."
    scale = 1.0 if scale is None else numbers(settings, "scale", size if isinstance(scale, list) else None)
    if clip is not None:
        clip = numbers(settings, "clip", 2)
    if not isinstance(history, int) or not 1 <= history <= MAX_HISTORY:
        raise ValueError(f"{place}history_length={short_repr(history)}; give a number of steps")
    return term(ours, size, scale, history=history, clip=clip)


def clip_of(own: Term) -> Optional[List[float]]:
    """Return the clip of a term as both write it."""
    return None if own.clip is None else list(own.clip)


def read_ranges(commands: Any) -> Optional[List[List[float]]]:
    """Return ``base_velocity.ranges`` of the section ``commands`` of a file, None if it has none."""
    velocity = commands.get("base_velocity") if isinstance(commands, Mapping) else None
    ranges = velocity.get("ranges") if isinstance(velocity, Mapping) else None
    return [numbers(ranges, name, 2) for name in _RANGES] if isinstance(ranges, Mapping) else None


def ranges_of(contract: Contract) -> Dict[str, List[float]]:
    """Return the ranges of the commands as both write them."""
    return {name: list(pair) for name, pair in zip(_RANGES, contract.command_ranges or ())}


def limits_of(contract: Contract) -> Optional[List[List[float]]]:
    """Return the limits of the joint targets as both write them."""
    return None if contract.target_limits is None else [list(pair) for pair in contract.target_limits]
