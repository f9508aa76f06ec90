"""What a control step tells the loggers."""

from __future__ import annotations

import math
from typing import Dict, Iterable, Optional

import torch
from torch import Tensor

from rsl_rl.tasks.robot_state import RobotState
from rsl_rl.utils.cpu_checks import none_on_cpu


class StepLog:
    """Makes numbers to be averaged, each [N] with NaN in the rows of robots that have nothing to say in a step.

    ``rew_<term>`` is what a finished episode earned by a term, per second of the ``episode_length`` [s] that it may
    take; ``fall_rate`` is 1 where it ended before its time. ``lin_vel_error`` [m/s] and ``yaw_rate_error`` [rad/s] are
    distances from the command.
    """

    def __init__(self, rewards: Iterable[str], episode_length: float):
        self._names = [f"rew_{name.rpartition(':')[2]}" for name in rewards]
        self._episode_length = episode_length

    def __call__(
        self, state: RobotState, episode_sums: Tensor, done: Tensor, time_outs: Tensor, broken: Optional[Tensor]
    ) -> Dict[str, Tensor]:
        """Return the numbers of the step that led to a state, with ``episode_sums`` [terms, N] of rewards and masks
        [N]; ``broken`` is None where surely no robot broke."""
        errors = {
            "lin_vel_error": torch.hypot(*(state.command[:, :2] - state.base_lin_vel[:, :2]).unbind(dim=1)),
            "yaw_rate_error": (state.command[:, 2] - state.base_ang_vel[:, 2]).abs_(),
        }
        if none_on_cpu(done):
            silence = torch.full_like(errors["yaw_rate_error"], math.nan)
            return {**dict.fromkeys((*self._names, "fall_rate"), silence), **errors}
        silent = ~done
        if broken is not None:
            silent |= broken
            errors = {name: error.masked_fill_(broken, math.nan) for name, error in errors.items()}
        per_second = (episode_sums / self._episode_length).masked_fill_(silent, math.nan)
        fall_rate = (~time_outs).float().masked_fill_(silent, math.nan)
        return {**dict(zip(self._names, per_second.unbind())), "fall_rate": fall_rate, **errors}
