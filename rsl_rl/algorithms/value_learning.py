"""Estimating returns with a critic, which learns them: what PPO and distillation share."""

from __future__ import annotations

from typing import Any, Dict, Iterator, Mapping, Optional, Union

import torch
from torch import Tensor

from rsl_rl.algorithms.gradient_steps import GradientStepAlgorithm
from rsl_rl.config.algorithm import ValueLearningConfig
from rsl_rl.env.vec_env import Observations
from rsl_rl.modules.model import Observation
from rsl_rl.storage.columns import GroupSpec
from rsl_rl.storage.mini_batch import MiniBatch
from rsl_rl.storage.returns import bootstrap_timeouts


class ValueLearningAlgorithm(GradientStepAlgorithm):
    """Learn from rollouts by generalised advantage estimates, with the critic's values."""

    cfg: ValueLearningConfig
    _last_critic_obs: Observation  # after the rollout

    def init_groups(self, num_envs: int, num_steps: int, groups: Mapping[str, GroupSpec]) -> None:
        if self.cfg.recompute_advantages and self.policy.critic_model.memory is not None:
            raise ValueError(
                "algorithm.recompute_advantages=True is for critics without memory; set it to false, or "
                "policy.memory_of to ('actor',)"
            )
        super().init_groups(num_envs, num_steps, groups)

    @property
    def normalizes_over_rollout(self) -> bool:
        """Whether the advantages of a rollout are normalised together."""
        return True

    def finish_step(self, row: Dict[str, Tensor], extras: Mapping[str, Any]) -> None:
        """Credit time-outs with the value of what would have come.

        Where ``extras["time_outs"]`` [N] says that only the clock ended an episode, this is V of
        ``extras["final_obs"]`` (groups, or the critic's tensor) where given, else V of the last state acted on, once
        ``estimate_returns`` has computed it.
        """
        if "time_outs" not in extras:
            return
        time_outs = extras["time_outs"].to(self.device).reshape(-1, 1)
        if "final_obs" in extras:
            final_values = self.policy.evaluate_stateless(self.policy.critic_obs(extras["final_obs"]))
            bootstrapped = bootstrap_timeouts(row["rewards"], final_values, time_outs, row["dones"], self.cfg.gamma)
            row["rewards"].copy_(bootstrapped)
        else:
            row["time_outs"].copy_(time_outs)

    def estimate_returns(self, obs: Union[Observations, Tensor]) -> None:
        policy, columns, gamma = self.policy, self.storage.columns, self.cfg.gamma
        policy.evaluate_rollout(self.storage.groups, columns["values"])
        bootstrapped = bootstrap_timeouts(
            columns["rewards"], columns["values"], columns["time_outs"], columns["dones"], gamma
        )
        columns["rewards"].copy_(bootstrapped)
        columns["time_outs"].zero_()  # credited
        self._last_critic_obs = policy.critic_obs(obs)
        self._estimate()

    def _estimate(self) -> None:
        """Fill returns and advantages from the stored values."""
        last_values = self.policy.evaluate_stateless(self._last_critic_obs)
        cfg = self.cfg
        self.storage.compute_returns(last_values, cfg.gamma, cfg.lam, self.normalizes_over_rollout, self.collective)

    def mini_batches(self) -> Iterator[Tensor]:
        if not self.cfg.recompute_advantages:
            yield from super().mini_batches()
            return
        storage = self.storage
        for epoch in range(self.cfg.num_learning_epochs):
            if epoch > 0:
                with torch.no_grad():
                    self.policy.evaluate_rollout(storage.groups, storage.columns["values"])
                    self._estimate()
            yield from storage.batches.shuffled(self.cfg.num_mini_batches, 1)

    def evaluate(self, batch: MiniBatch) -> Optional[Tensor]:
        policy = self.policy
        values = policy.evaluate(policy.critic_obs(batch.groups), batch.masks, batch.hidden_states[1])
        return policy.value_normalizer.scaled(values)
