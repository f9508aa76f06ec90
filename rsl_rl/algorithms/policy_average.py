"""Exponential average of a policy's weights."""

from __future__ import annotations

from typing import Any, Dict, Mapping

import torch

from rsl_rl.modules.actor_critic import ActorCritic


class PolicyAverage:
    """The average of a policy's weights over updates, to evaluate and export; with ``decay`` 0 the policy itself.

    The decay of update t is min(decay, (1 + t) / (10 + t)), so that the first weights have little influence.
    """

    def __init__(self, policy: ActorCritic, decay: float):
        self._trained, self._decay, self._num_updates = policy, decay, 0
        self.policy = policy.snapshot() if decay > 0 else policy

    @torch.no_grad()
    def update(self) -> None:
        """Add the current weights to the average."""
        if self._decay == 0:
            return
        self._num_updates += 1
        decay = min(self._decay, (1 + self._num_updates) / (10 + self._num_updates))
        for average, value in zip(self.policy.parameters(), self._trained.parameters()):
            average.lerp_(value, 1.0 - decay)
        for average, value in zip(self.policy.buffers(), self._trained.buffers()):
            average.copy_(value)

    def state_dict(self) -> Dict[str, Any]:
        """Return the average, where there is one."""
        if self._decay == 0:
            return {}
        return {"average": {"num_updates": self._num_updates, "model_state_dict": self.policy.state_dict()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load the average from what :meth:`state_dict` returned; without one it starts at the current weights."""
        if self._decay == 0:
            return
        average = state.get("average", {"num_updates": 0, "model_state_dict": self._trained.state_dict()})
        self._num_updates = int(average["num_updates"])
        self.policy.load_state_dict(average["model_state_dict"])
