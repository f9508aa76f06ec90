"""A loss that keeps a policy near a reference policy."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Union

import torch
from torch import Tensor

from rsl_rl.algorithms.extension import Extension
from rsl_rl.config.extensions import ReferenceKLConfig
from rsl_rl.env.vec_env import Observations, VecEnv
from rsl_rl.modules.policy import ActorCritic
from rsl_rl.storage.mini_batches import MiniBatch, weighted_mean
from rsl_rl.storage.rollout import Column, RolloutStorage, Transition

_PREFIX = "reference_"


class ReferenceKL(Extension):
    """Add ``weight`` times KL(policy || reference) [nats] to the loss, as in the objective of GRPO (Shao et al. 2024,
    https://arxiv.org/abs/2402.03300, eq. 3); here in closed form over the actions instead of by an estimate.

    The reference is the policy at the first step that is collected, so weights that were loaded before count, and with
    ``interval`` the policy after every ``interval`` updates. Its distribution is computed when a step is collected and
    stored with it. A reference with a memory begins with zeros after a resume. The metric ``reference_kl`` is the loss.
    """

    def __init__(self, cfg: ReferenceKLConfig, policy: ActorCritic):
        self.cfg, self._policy = cfg, policy
        shapes = policy.family.parameter_shapes
        self.columns = {f"{_PREFIX}{name}": Column(shape[0]) for name, shape in shapes.items()}
        self.reference: Optional[ActorCritic] = None
        self.num_updates = 0

    @classmethod
    def from_env(
        cls, cfg: ReferenceKLConfig, env: VecEnv, policy: ActorCritic, device: Union[str, torch.device]
    ) -> ReferenceKL:
        return cls(cfg, policy)

    @torch.no_grad()
    def reward(self, transition: Transition, next_obs: Observations, dones: Tensor) -> None:
        """Store the reference's distribution for the step; there is no reward."""
        if self.reference is None:
            self.reference = self._policy.snapshot()
        reference = self.reference
        distribution = reference.update_distribution(transition.groups)
        for name, value in distribution.parameters.items():
            transition.columns[f"{_PREFIX}{name}"].copy_(value)

    def losses(self, policy: ActorCritic, batch: MiniBatch) -> Dict[str, Tensor]:
        names = policy.family.parameter_shapes
        reference = policy.family.of_parameters({name: batch.columns[f"{_PREFIX}{name}"] for name in names})
        kl = reference.kl_from(policy.distribution.parameters)
        return {"reference_kl": self.cfg.weight * weighted_mean(kl, batch.sample_mask)}

    def update(self, storage: RolloutStorage) -> Dict[str, Tensor]:
        self.num_updates += 1
        if self.cfg.interval and self.num_updates % self.cfg.interval == 0:
            self.reference = self._policy.snapshot()
        return {}

    def reset(self, dones: Optional[Tensor] = None) -> None:
        if self.reference is not None:
            self.reference.reset(dones)

    def state_dict(self) -> Dict[str, Any]:
        if self.reference is None:
            return {}
        return {"reference": self.reference.state_dict(), "num_updates": self.num_updates}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if "reference" in state:
            self.reference = self._policy.snapshot()
            self.reference.load_state_dict(state["reference"])
            self.num_updates = int(state["num_updates"])
