"""Proximal policy optimisation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Optional, Sequence, Union

import torch
from torch import Tensor

from rsl_rl.algorithms.config_attributes import config_attributes
from rsl_rl.algorithms.extension import Extension
from rsl_rl.algorithms.gradient_steps import FIXED
from rsl_rl.algorithms.learning_rate import SCHEDULES
from rsl_rl.algorithms.losses import LossTerms, PPOLoss, batch_transforms
from rsl_rl.algorithms.value_learning import ValueLearningAlgorithm
from rsl_rl.config.acceleration import AccelerationConfig
from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.distributed import Collective
from rsl_rl.modules.actor_critic import ActorCritic


@config_attributes(PPOConfig, "learning_rate", "max_grad_norm", fixed=(*FIXED, "normalize_advantage_per_mini_batch"))
class PPO(ValueLearningAlgorithm):
    """Improve a policy by the clipped surrogate, https://arxiv.org/abs/1707.06347.

    ``settings`` are the fields of :class:`PPOConfig`, in place of ``cfg`` or to change it. They can be read
    as attributes, and most of them written.
    ``extensions`` join in the order given. Call ``init_storage`` before the first rollout. The terms of the loss are
    those of :class:`LossTerms`: surrogate_loss, value_loss, entropy [nats] and kl [nats].
    """

    term_names = ("surrogate_loss", "value_loss", "entropy", "kl")
    cfg: PPOConfig

    def __init__(
        self,
        actor_critic: ActorCritic,
        device: Union[str, torch.device] = "cpu",
        cfg: Optional[PPOConfig] = None,
        extensions: Sequence[Extension] = (),
        acceleration: Optional[AccelerationConfig] = None,
        **settings: Any,
    ):
        cfg = PPOConfig(**settings) if cfg is None else replace(cfg, **settings)
        super().__init__(actor_critic, device, cfg, extensions, acceleration)
        self.transforms = batch_transforms(cfg, self.policy)
        self._acceleration.accelerate_ppo_loss(self.policy, not (self.transforms or self.extensions.change_loss))
        self.loss = self._acceleration.loss or PPOLoss()

    def join(self, collective: Collective) -> None:
        super().join(collective)
        self.transforms = batch_transforms(self.cfg, self.policy, collective)

    @property
    def normalizes_over_rollout(self) -> bool:
        return not self.cfg.normalize_advantage_per_mini_batch

    def adapt(self, terms: Tensor) -> None:
        kl = LossTerms._make(terms.unbind()).kl
        self._learning_rate.copy_(SCHEDULES[self.cfg.schedule](self._learning_rate, kl, self.cfg))
