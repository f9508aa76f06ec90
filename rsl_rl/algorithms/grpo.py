"""Group relative policy optimisation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Dict, Mapping, Optional, Sequence, Union

import torch
from torch import Tensor

from rsl_rl.algorithms.config_attributes import config_attributes
from rsl_rl.algorithms.extension import Extension
from rsl_rl.algorithms.gradient_steps import FIXED, GradientStepAlgorithm
from rsl_rl.algorithms.learning_rate import SCHEDULES
from rsl_rl.algorithms.losses import PolicyTerms, policy_terms
from rsl_rl.config.acceleration import AccelerationConfig
from rsl_rl.config.algorithm import GRPOConfig
from rsl_rl.config.learn import LearnConfig
from rsl_rl.env.protocols import Resettable, SharesStarts
from rsl_rl.env.vec_env import Observations, VecEnv
from rsl_rl.modules.actor_critic import ActorCritic
from rsl_rl.modules.distributions import Distribution
from rsl_rl.storage.columns import Column, GroupSpec
from rsl_rl.storage.mini_batch import MiniBatch
from rsl_rl.storage.returns import gae, group_advantages, learnable_steps
from rsl_rl.storage.rollout_buffer import ENDS, RolloutBuffer, transition_view


@config_attributes(GRPOConfig, "learning_rate", "max_grad_norm", fixed=(*FIXED, "group_size"))
class GRPO(GradientStepAlgorithm):
    """Improve a policy by the clipped surrogate, with advantages over a group of environments instead of a critic's
    (Shao et al. 2024, https://arxiv.org/abs/2402.03300).

    A group is ``group_size`` consecutive environments. The rollout is that of ``buffer``, a :class:`RolloutBuffer`, to
    which each update attaches ``seq_return``, the return that a step is credited with, ``seq_mask``, which is 0 for
    steps that are not learned from, and ``advantage``, the return relative to the group; see ``GRPOConfig``. The policy
    may have any networks; its critic is not used. A time limit, and the end of the rollout, end a sequence without a
    value. The mean in the loss is over the steps of all sequences.
    """

    term_names = ("surrogate_loss", "entropy", "kl")
    cfg: GRPOConfig
    buffer: RolloutBuffer

    def __init__(
        self,
        actor_critic: ActorCritic,
        device: Union[str, torch.device] = "cpu",
        cfg: Optional[GRPOConfig] = None,
        extensions: Sequence[Extension] = (),
        acceleration: Optional[AccelerationConfig] = None,
        **settings: Any,
    ):
        cfg = GRPOConfig(**settings) if cfg is None else replace(cfg, **settings)
        super().__init__(actor_critic, device, cfg, extensions, acceleration)
        self.loss = GRPOLoss()
        self._sequence_return = torch.zeros((), device=self.device)  # mean over the sequences of the last rollout

    @classmethod
    def from_env(cls, cfg: LearnConfig, env: VecEnv, device: Union[str, torch.device], **parts: Any) -> GRPO:
        """Return the algorithm for an environment; one that cannot restart its episodes is a ValueError."""
        alg = super().from_env(cfg, env, device, **parts)
        if alg.restarts_episodes and not isinstance(env, Resettable):
            raise ValueError(
                f"{type(env).__name__} has no reset(env_ids), with which each rollout begins; add the method, or set "
                "algorithm.restart_episodes to false"
            )
        if isinstance(env, SharesStarts):
            env.share_starts(alg.cfg.group_size)
        return alg

    @property
    def restarts_episodes(self) -> bool:
        return self.cfg.restart_episodes

    @property
    def columns(self) -> Dict[str, Column]:
        return {**super().columns, **ENDS}

    @property
    def stores_last_obs(self) -> bool:
        return True

    def init_groups(self, num_envs: int, num_steps: int, groups: Mapping[str, GroupSpec]) -> None:
        if num_envs % self.cfg.group_size:
            raise ValueError(
                f"num_envs={num_envs} is not divisible by algorithm.group_size={self.cfg.group_size}; give a multiple"
            )
        super().init_groups(num_envs, num_steps, groups)
        self.buffer = RolloutBuffer.over(self.storage)

    def begin_rollout(self) -> None:
        self.buffer.start_rollout()

    def finish_step(self, row: Dict[str, Tensor], extras: Mapping[str, Any]) -> None:
        row["truncated"].zero_()
        if "time_outs" in extras:
            row["truncated"].copy_(extras["time_outs"].reshape(-1, 1)).logical_and_(row["dones"])
        torch.logical_and(row["dones"], ~row["truncated"], out=row["terminated"])

    def estimate_returns(self, obs: Union[Observations, Tensor]) -> None:
        buffer, cfg = self.buffer, self.cfg
        buffer.write_last_obs({"policy": obs} if isinstance(obs, Tensor) else obs)
        buffer.add(buffer.rollout)
        view = transition_view(buffer.get(flatten=False))
        rewards, dones = view["reward"].t(), view["done"].t()  # [T, N]
        valid = self.storage.columns["sample_mask"].squeeze(-1) > 0
        mask = learnable_steps(dones, valid, only_first=cfg.restart_episodes).float()
        zeros = torch.zeros_like(rewards)
        returns = gae(rewards, zeros, zeros[0], dones, cfg.gamma, 1.0)
        if cfg.credit == "sequence":
            returns = returns[0].expand_as(returns)
        advantages = group_advantages(returns, mask, cfg.group_size, cfg.scale_advantages)
        fields = {"advantage": advantages, "return": returns, "seq_return": returns, "seq_mask": mask}
        buffer.attach(**{name: field.t() for name, field in fields.items()})
        total, count = self.collective.sum(torch.stack(((returns[0] * mask[0]).sum(), mask[0].sum()))).unbind()
        self._sequence_return.copy_(total / count.clamp(min=1.0))

    def update(self) -> Dict[str, Tensor]:
        """Learn from the rollout and clear it; see :meth:`GradientStepAlgorithm.update` for the metrics.

        ``sequence_return`` is the mean return of the first step of the sequences.
        """
        metrics = super().update()
        metrics["sequence_return"] = self._sequence_return.clone()
        return metrics

    def adapt(self, terms: Tensor) -> None:
        kl = PolicyTerms._make(terms.unbind()).kl
        self._learning_rate.copy_(SCHEDULES[self.cfg.schedule](self._learning_rate, kl, self.cfg))


class GRPOLoss:
    """Add the gradient of the loss of GRPO, and of additional losses, to the parameters."""

    def __call__(
        self,
        distribution: Distribution,
        values: Optional[Tensor],
        batch: MiniBatch,
        weights: Tensor,
        cfg: GRPOConfig,
        additional: Mapping[str, Tensor],
    ) -> Tensor:
        """Return the sums [3] of the PolicyTerms, without graph; ``values`` are not read."""
        terms = policy_terms(distribution, batch, weights, cfg)
        loss = terms.surrogate - cfg.entropy_coef * terms.entropy
        for term in additional.values():
            loss = loss + term
        loss.backward()
        return torch.stack(terms).detach()
