"""Terminations: functions of the robots' state and the settings that end an episode as a failure, each [N] bool."""

from __future__ import annotations

import math
from typing import Dict

from torch import Tensor

from rsl_rl.config.mdp import TerminationConfig
from rsl_rl.tasks.robot_state import RobotState


def forbidden_contact(state: RobotState, cfg: TerminationConfig) -> Tensor:
    """One of the ``contact_links`` touches the floor."""
    return _touching(state, cfg).any(dim=1)


def tilted(state: RobotState, cfg: TerminationConfig) -> Tensor:
    """The tilt of the trunk exceeds ``max_tilt``."""
    return state.gravity[:, 2] > -math.cos(cfg.max_tilt)


def failures(state: RobotState, cfg: TerminationConfig) -> Dict[str, Tensor]:
    """Return each failure by name, [N] bool: "<link>_contact" for each of the ``contact_links``, and "tilt".

    Several failures may occur at once.
    """
    links = (f"{link}_contact" for link in cfg.contact_links)
    return {**dict(zip(links, _touching(state, cfg).unbind(dim=1))), "tilt": tilted(state, cfg)}


def _touching(state: RobotState, cfg: TerminationConfig) -> Tensor:
    """Return which of the ``contact_links`` touch the floor, [N, links] bool."""
    return state.contact_strength(cfg.contact_links) > cfg.contact_force
