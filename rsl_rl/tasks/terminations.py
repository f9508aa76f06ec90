"""What ends an episode as a failure: functions of the robots' state and the settings, each [N] bool."""

from __future__ import annotations

import math

from torch import Tensor

from rsl_rl.config.task import TerminationConfig
from rsl_rl.tasks.robot_state import RobotState


def forbidden_contact(state: RobotState, cfg: TerminationConfig) -> Tensor:
    """One of the ``contact_links`` presses on the floor."""
    return (state.contact_force(cfg.contact_links).norm(dim=-1) > cfg.contact_force).any(dim=1)


def tilted(state: RobotState, cfg: TerminationConfig) -> Tensor:
    """The trunk leans further than allowed."""
    return -state.gravity[:, 2] < math.cos(cfg.max_tilt)
