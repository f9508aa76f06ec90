"""The way back from a learner that has lost itself."""

from __future__ import annotations

import copy

from rsl_rl.algorithms.ppo import PPO
from rsl_rl.config.learn import SafetyConfig


class TrainingError(RuntimeError):
    """A training that cannot go on; the message says why and what to do."""


class Recovery:
    """Keeps a good state of the learner, and returns to it when too many gradient steps in a row had to be skipped."""

    def __init__(self, alg: PPO, cfg: SafetyConfig, iteration: int, num_rollbacks: int = 0):
        self._alg, self._cfg = alg, cfg
        self.num_rollbacks = num_rollbacks
        self.keep(iteration)

    def keep(self, iteration: int) -> None:
        """Remember the learner as it is now."""
        self._iteration, self._good = iteration, copy.deepcopy(self._alg.state_dict())

    def needed(self, skipped_in_row: float) -> bool:
        """Tell whether an update went so wrong that the learner should go back."""
        return skipped_in_row >= self._cfg.max_skipped_steps

    def roll_back(self) -> str:
        """Return to the good state with a lower learning rate, and say so; once too often is a TrainingError."""
        alg, limit = self._alg, self._cfg.max_rollbacks
        reason = (
            f"{self._cfg.max_skipped_steps} gradient steps in a row had a loss or gradient that was not finite, or "
            "nothing to learn from"
        )
        if self.num_rollbacks >= limit:
            raise TrainingError(
                f"{reason}, after {self.num_rollbacks} of {limit} returns to a good state; look for the cause in the "
                "environment (postmortem/), lower algorithm.learning_rate, or raise safety.max_rollbacks"
            )
        self.num_rollbacks += 1
        rate = min(alg.learning_rate, self._good["learning_rate"]) * self._cfg.rollback_factor
        alg.load_state_dict(copy.deepcopy(self._good))
        alg.learning_rate = rate
        alg.skips_in_row.zero_()
        alg.actor_critic.reset()
        self._good["learning_rate"] = rate
        return (
            f"warning: {reason}: back to the learner of iteration {self._iteration}, learning rate {rate:.2g} "
            f"(return {self.num_rollbacks} of {limit})"
        )
