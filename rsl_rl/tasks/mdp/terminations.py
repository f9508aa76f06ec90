"""What ends an episode as a failure: functions of the robots' state and the settings, each [N] bool."""

from __future__ import annotations

import math
from typing import Dict

from torch import Tensor

from rsl_rl.config.mdp import TerminationConfig
from rsl_rl.tasks.robot_state import RobotState


def forbidden_contact(state: RobotState, cfg: TerminationConfig) -> Tensor:
    """One of the ``contact_links`` presses on the floor."""
    return _pressing(state, cfg).any(dim=1)


def tilted(state: RobotState, cfg: TerminationConfig) -> Tensor:
    """The trunk leans further than allowed."""
    return state.gravity[:, 2] > -math.cos(cfg.max_tilt)


def failures(state: RobotState, cfg: TerminationConfig) -> Dict[str, Tensor]:
    """Return where each failure by its name happens, [N] bool: "<link>_contact" for each of the ``contact_links``, and
    "tilt". A robot may fail in several ways at once."""
    links = (f"{link}_contact" for link in cfg.contact_links)
    return {**dict(zip(links, _pressing(state, cfg).unbind(dim=1))), "tilt": tilted(state, cfg)}


def _pressing(state: RobotState, cfg: TerminationConfig) -> Tensor:
    """Return which of the ``contact_links`` press on the floor, [N, links] bool."""
    return state.contact_strength(cfg.contact_links) > cfg.contact_force
