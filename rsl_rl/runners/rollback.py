"""Return to an earlier state of a learner whose gradient steps fail."""

from __future__ import annotations

import copy
from typing import Any, Dict, Mapping, Optional

from rsl_rl.algorithms.algorithm import Algorithm
from rsl_rl.config.learn import SafetyConfig


class TrainingError(RuntimeError):
    """A training that cannot continue; the message says why and what to do."""


class Rollback:
    """Store a good state of the learner, and load it when too many gradient steps in a row were skipped."""

    def __init__(self, alg: Algorithm, cfg: SafetyConfig):
        self._alg, self._cfg = alg, cfg
        self.num_rollbacks = 0
        self._good: Optional[Dict[str, Any]] = None  # state of the algorithm
        self._iteration = -1  # of the good state
        self._loaded = False  # the good state is that of a checkpoint, and no training has begun since

    def start(self, iteration: int) -> None:
        """Keep the present state of the learner, unless a good state was loaded with it."""
        if not self._loaded:
            self.keep(iteration)
        self._loaded = False

    def keep(self, iteration: int) -> None:
        """Store the current state of the learner."""
        self._iteration, self._good = iteration, copy.deepcopy(self._alg.state_dict())
        self._learning_rate = self._alg.learning_rate

    def state_dict(self, iteration: int) -> Dict[str, Any]:
        """Return the good state for the checkpoint of an iteration; nothing where it is that of the checkpoint."""
        if self._good is None or self._iteration == iteration:
            return {}
        kept = {"iteration": self._iteration, "learning_rate": self._learning_rate, "state": self._good}
        return {"rollback": kept}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load the good state of a checkpoint, where it holds one."""
        self._loaded = "rollback" in state
        if self._loaded:
            kept = state["rollback"]
            self._iteration, self._good = int(kept["iteration"]), kept["state"]
            self._learning_rate = float(kept["learning_rate"])

    def check(self, iteration: int, steps_taken: float, steps_skipped: float, may_keep: bool) -> str:
        """Roll back if too many gradient steps were skipped in a row, and return a message for the user, or an empty
        string.

        With ``may_keep`` the state is stored if a gradient step was taken. More rollbacks than allowed are a
        :class:`TrainingError`.
        """
        if steps_skipped >= self._cfg.max_skipped_steps:
            return self._roll_back()
        if steps_taken > 0 and may_keep:
            self.keep(iteration)
        return ""

    def _roll_back(self) -> str:
        """Load the good state, with a lower learning rate."""
        alg, limit = self._alg, self._cfg.max_rollbacks
        reason = (
            f"{self._cfg.max_skipped_steps} gradient steps in a row had a loss or gradient that was not finite, or "
            "no unmasked sample"
        )
        if self.num_rollbacks >= limit:
            raise TrainingError(
                f"{reason}, after {self.num_rollbacks} of {limit} rollbacks; find the cause in the environment "
                "(postmortem/), lower algorithm.learning_rate, or raise safety.max_rollbacks"
            )
        assert self._good is not None  # start() has kept one
        self.num_rollbacks += 1
        rate = min(alg.learning_rate, self._learning_rate) * self._cfg.rollback_factor
        alg.restart_from(copy.deepcopy(self._good), rate)
        self._learning_rate = rate
        return (
            f"warning: {reason}: rollback to the learner of iteration {self._iteration}, learning rate {rate:.2g} "
            f"(rollback {self.num_rollbacks} of {limit})"
        )
