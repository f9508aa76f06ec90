"""Deprecated, use rsl_rl.tasks.mdp.rewards: the same rewards with their former signature (state, cfg)."""

import functools
import warnings
from typing import Callable

from torch import Tensor

from rsl_rl.config.mdp import RewardConfig
from rsl_rl.tasks.mdp import rewards
from rsl_rl.tasks.robot_state import RobotState
from rsl_rl.utils.binding import bind_term, settings_of


def _with_settings(function: Callable[..., Tensor]) -> Callable[[RobotState, RewardConfig], Tensor]:
    @functools.wraps(function)
    def term(state: RobotState, cfg: RewardConfig) -> Tensor:
        return bind_term(function, {}, function.__name__, settings_of(cfg))(state)

    return term


TERMS = {name: _with_settings(function) for name, function in rewards.TERMS.items()}
globals().update(TERMS)

warnings.warn("rsl_rl.tasks.rewards is deprecated; import rsl_rl.tasks.mdp.rewards", DeprecationWarning, stacklevel=2)
