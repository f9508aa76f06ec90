"""Metrics of a control step for the loggers."""

from __future__ import annotations

import math
from typing import Dict, Iterable, Optional

import torch
from torch import Tensor

from rsl_rl.tasks.robot_state import RobotState
from rsl_rl.utils.tensors import none_on_cpu


class StepLog:
    """Compute metrics to be averaged, each [N], with NaN for robots without a value in this step.

    ``rew_<term>`` is the sum of a reward term over a finished episode, divided by ``episode_length`` [s];
    ``fall_rate`` is 1 for an episode that ended before its time limit. ``lin_vel_error`` [m/s] and ``yaw_rate_error``
    [rad/s] are the tracking errors.
    """

    def __init__(self, rewards: Iterable[str], episode_length: float):
        self._names = [f"rew_{name.rpartition(':')[2]}" for name in rewards]
        self._episode_length = episode_length

    def __call__(
        self, state: RobotState, episode_sums: Tensor, done: Tensor, time_outs: Tensor, broken: Optional[Tensor]
    ) -> Dict[str, Tensor]:
        """Return the metrics of the last step; ``episode_sums`` of rewards are [terms, N], masks [N].

        ``broken`` is None if no robot broke.
        """
        errors = {
            "lin_vel_error": torch.hypot(*(state.command[:, :2] - state.base_lin_vel[:, :2]).unbind(dim=1)),
            "yaw_rate_error": (state.command[:, 2] - state.base_ang_vel[:, 2]).abs_(),
        }
        if none_on_cpu(done):
            no_value = torch.full_like(errors["yaw_rate_error"], math.nan)
            return {**dict.fromkeys((*self._names, "fall_rate"), no_value), **errors}
        not_counted = ~done
        if broken is not None:
            not_counted |= broken
            errors = {name: error.masked_fill_(broken, math.nan) for name, error in errors.items()}
        per_second = (episode_sums / self._episode_length).masked_fill_(not_counted, math.nan)
        fall_rate = (~time_outs).float().masked_fill_(not_counted, math.nan)
        return {**dict(zip(self._names, per_second.unbind())), "fall_rate": fall_rate, **errors}
