"""The weighted sum of a task's reward terms."""

from __future__ import annotations

from typing import Dict, Mapping

import torch
from torch import Tensor

from rsl_rl.config.mdp import RewardConfig
from rsl_rl.tasks.mdp.rewards import TERMS, RewardTerm
from rsl_rl.tasks.robot_state import RobotState
from rsl_rl.utils.registry import import_object, suggest


class WeightedRewards:
    """Compute the reward terms that a config gives a weight, and keep their sums over each episode."""

    def __init__(self, cfg: RewardConfig, state: RobotState, control_dt: float):
        if not cfg.weights:
            raise ValueError(f"rewards.weights is empty; give a weight to some of {', '.join(sorted(TERMS))}")
        self._cfg, self._state = cfg, state
        self._terms = [find_reward_term(name) for name in cfg.weights]
        device, num_envs = state.command.device, len(state.command)
        step_weights = [weight * control_dt for weight in cfg.weights.values()]
        self._weights = torch.tensor(step_weights, device=device).unsqueeze(1)  # [terms, 1]
        self.episode_sums = torch.zeros(len(self._terms), num_envs, device=device)  # the caller adds each step's terms

    def compute(self) -> Tensor:
        """Return each term of the current state times its weight and the control period [terms, N]."""
        return torch.stack([term(self._state, self._cfg) for term in self._terms]).mul_(self._weights)

    def reset(self, mask: Tensor) -> None:
        """Set the sums of the environments marked in mask [N] to zero."""
        self.episode_sums.masked_fill_(mask, 0.0)

    def state_dict(self) -> Dict[str, Tensor]:
        """Return the sum of each term by name, each [N]."""
        return dict(zip(self._cfg.weights, self.episode_sums.clone()))

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore the sums; a term that the state does not have starts from zero."""
        for own, name in zip(self.episode_sums, self._cfg.weights):
            own.copy_(state.get(name, torch.zeros_like(own)))


def find_reward_term(name: str) -> RewardTerm:
    """Find a reward term by the name of its function, or by "package.module:function"."""
    if ":" in name:
        return import_object(name)
    if name not in TERMS:
        known = ", ".join(sorted(TERMS))
        raise ValueError(f"unknown reward term '{name}'; known: {known}.{suggest(name, TERMS)}")
    return TERMS[name]
