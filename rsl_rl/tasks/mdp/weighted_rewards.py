"""The weighted sum of a task's reward terms."""

from __future__ import annotations

from typing import Callable, Dict, Mapping

import torch
from torch import Tensor

from rsl_rl.config.mdp import RewardConfig
from rsl_rl.tasks.mdp.rewards import TERMS
from rsl_rl.tasks.robot_state import RobotState
from rsl_rl.utils.binding import bind_term, find_function, settings_of


class WeightedRewards:
    """Compute the reward terms that a config gives a weight, and keep their sums over each episode."""

    def __init__(self, cfg: RewardConfig, state: RobotState, control_dt: float):
        if not cfg.weights:
            raise ValueError(f"rewards.weights is empty; give a weight to some of {', '.join(sorted(TERMS))}")
        self._state, self._terms = state, bind_rewards(cfg)
        device, num_envs = state.command.device, len(state.command)
        for name, term in self._terms.items():
            shape = list(term(state).shape)
            if shape != [num_envs]:
                raise ValueError(f"the reward '{name}' returns {shape}; return [N], here N={num_envs}")
        step_weights = [term.weight * control_dt for term in cfg.all_terms.values()]
        self._weights = torch.tensor(step_weights, device=device).unsqueeze(1)  # [terms, 1]
        self.episode_sums = torch.zeros(len(self._terms), num_envs, device=device)  # the caller adds each step's terms

    def compute(self) -> Tensor:
        """Return each term of the current state times its weight and the control period [terms, N]."""
        return torch.stack([term(self._state) for term in self._terms.values()]).mul_(self._weights)

    def reset(self, mask: Tensor) -> None:
        """Set the sums of the environments marked in mask [N] to zero."""
        self.episode_sums.masked_fill_(mask, 0.0)

    def state_dict(self) -> Dict[str, Tensor]:
        """Return the sum of each term by name, each [N]."""
        return dict(zip(self._terms, self.episode_sums.clone()))

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore the sums; a term that the state does not have starts from zero."""
        for own, name in zip(self.episode_sums, self._terms):
            own.copy_(state.get(name, torch.zeros_like(own)))


def bind_rewards(cfg: RewardConfig) -> Dict[str, Callable[[RobotState], Tensor]]:
    """Return the function of each reward term by name, with its parameters bound."""
    return {
        name: bind_term(
            find_function(term.func or name, TERMS, "reward term"),
            term.params,
            f"env.rewards.weights.{name}",
            settings_of(cfg),
        )
        for name, term in cfg.all_terms.items()
    }
