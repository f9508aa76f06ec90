"""Group relative policy optimisation."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence, Union

import torch
from torch import Tensor

from rsl_rl.acceleration.selection import Acceleration
from rsl_rl.algorithms.algorithm import Algorithm, UpdateResult
from rsl_rl.algorithms.extension import Extension, Extensions
from rsl_rl.algorithms.losses import policy_terms
from rsl_rl.algorithms.ppo import (
    GradientSteps,
    build_parts,
    draw_actions,
    store_result,
    store_step,
)
from rsl_rl.config.algorithm import GRPOConfig
from rsl_rl.config.learn import AccelerationConfig, LearnConfig
from rsl_rl.env.protocols import Resettable, SharesStarts, supports
from rsl_rl.env.vec_env import Observations, VecEnv
from rsl_rl.modules.distributions import Distribution
from rsl_rl.modules.policy import ActorCritic
from rsl_rl.storage.mini_batches import MiniBatch
from rsl_rl.storage.returns import gae, group_advantages, learnable_steps
from rsl_rl.storage.rollout import RolloutStorage


class GRPO(Algorithm):
    """Improve a policy by the clipped surrogate, with advantages over a group of environments instead of a critic's
    (Shao et al. 2024, https://arxiv.org/abs/2402.03300).

    A group is ``group_size`` consecutive environments. The advantage of a step is its return relative to the group; see
    ``GRPOConfig``. The policy may have any networks; its critic is not used. A time limit, and the end of the rollout,
    end a sequence without a value. The mean in the loss is over the steps of all sequences. The metric
    ``sequence_return`` is the mean return of the first step of the sequences; for others see
    :meth:`GradientSteps.run`.
    """

    RANK_STATE = ("extensions",)
    cfg: GRPOConfig
    learner: GradientSteps

    def __init__(
        self,
        policy: ActorCritic,
        storage: RolloutStorage,
        cfg: GRPOConfig,
        extensions: Sequence[Extension] = (),
        acceleration: Optional[AccelerationConfig] = None,
    ):
        self.cfg, self.policy, self.storage = cfg, policy, storage
        self.device = next(policy.parameters()).device
        self.extensions = Extensions(extensions)
        self.acceleration = Acceleration(acceleration, self.device)
        self.acceleration.accelerate_networks(policy)
        terms = ("surrogate_loss", "entropy", "kl")
        self.learner = GradientSteps(
            policy, terms, grpo_backward, cfg, self.extensions, self.acceleration, with_values=False
        )
        self.restarts_episodes = cfg.restart_episodes
        self._policy_step = self.acceleration.graphed(draw_actions)
        self.obs_groups = tuple(storage.groups)
        self.description = self.acceleration.description
        self._sequence_return = torch.zeros((), device=self.device)  # mean over the sequences of the last rollout

    @classmethod
    def from_env(cls, cfg: LearnConfig, env: VecEnv, device: Union[str, torch.device]) -> GRPO:
        """Return the algorithm for an environment; one that cannot restart its episodes is a ValueError."""
        assert isinstance(cfg.algorithm, GRPOConfig)
        prepare_env(env, cfg.algorithm)
        parts = build_parts(cfg, env, device)
        return cls(parts.policy, parts.storage, cfg.algorithm, parts.extensions, cfg.acceleration)

    def begin_rollout(self) -> None:
        self.storage.clear()
        for policy in self.acceleration.cached:
            policy.cache_weights()

    @torch.no_grad()
    def act(self, obs: Observations) -> Tensor:
        """Return actions [N, A] for observation groups, and store both."""
        states = self.policy.current_states(self.storage.num_envs)
        self.transition = self.storage.begin_step(obs, states)
        step = self._policy_step(self.policy, self.transition.groups, states)
        self.policy.set_hidden_states(step.hidden_states)
        return store_step(self.transition, step)

    @torch.no_grad()
    def process_env_step(
        self, rewards: Tensor, dones: Tensor, extras: Mapping[str, Any], next_obs: Optional[Observations] = None
    ) -> None:
        row = store_result(self.transition, rewards, dones, extras, self.extensions, next_obs)
        self.storage.step += 1
        self.reset(row["dones"].squeeze(-1))

    def reset(self, dones: Optional[Tensor] = None) -> None:
        self.policy.reset(dones)
        for extension in self.extensions.all:
            extension.reset(dones)

    @torch.no_grad()
    def compute_returns(self, obs: Observations) -> None:
        """Compute returns and advantages of the rollout, and mask the steps that are not learned from."""
        columns, cfg = self.storage.columns, self.cfg
        acted = self.policy.family.of_parameters(columns)
        columns["actions_log_prob"].copy_(acted.log_prob(columns["actions"]))
        rewards, dones = columns["rewards"].squeeze(-1), columns["dones"].squeeze(-1)  # [T, N]
        valid = columns["sample_mask"].squeeze(-1) > 0
        mask = learnable_steps(dones, valid, only_first=cfg.restart_episodes).float()
        zeros = torch.zeros_like(rewards)
        returns = gae(rewards, zeros, zeros[0], dones, cfg.gamma, 1.0)
        if cfg.credit == "sequence":
            returns = returns[0].expand_as(returns)
        advantages = group_advantages(returns, mask, cfg.group_size, cfg.scale_advantages)
        for name, value in (("advantages", advantages), ("returns", returns), ("sample_mask", mask)):
            columns[name].copy_(value.unsqueeze(-1))
        total, count = self.collective.sum(torch.stack(((returns[0] * mask[0]).sum(), mask[0].sum()))).unbind()
        self._sequence_return.copy_(total / count.clamp(min=1.0))
        for policy in self.acceleration.cached:
            policy.clear_cache()
        for extension in self.extensions.all:
            extension.finish_rollout(self.storage)

    def update(self) -> UpdateResult:
        scheduled = self.cfg.learning_rate_at(self.progress)
        if scheduled is not None:
            self.learning_rate = scheduled
        cfg = self.cfg.at(self.progress)
        batches = self.storage.batches.shuffled(cfg.num_mini_batches, cfg.num_learning_epochs)
        result = self.learner.run(self.storage, cfg, batches)
        result.metrics["sequence_return"] = self._sequence_return.clone()
        return result

    @property
    def inference_policy(self) -> ActorCritic:
        return self.learner.inference_policy


def grpo_backward(
    distribution: Distribution,
    values: Optional[Tensor],
    batch: MiniBatch,
    weights: Tensor,
    cfg: GRPOConfig,
    additional: Mapping[str, Tensor],
) -> Tensor:
    """Add the gradient of the loss of GRPO, and of additional losses, to the parameters; ``values`` are not read."""
    terms = policy_terms(distribution, batch, weights, cfg)
    loss = terms.surrogate - cfg.entropy_coef * terms.entropy
    for term in additional.values():
        loss = loss + term
    loss.backward()
    return torch.stack(terms).detach()


def prepare_env(env: VecEnv, cfg: GRPOConfig) -> None:
    """Make groups of environments start in the same state, if the environment supports it. A number of environments
    that is not a multiple of the group size, or an environment that cannot restart its episodes, is a ValueError."""
    require_groups(env.num_envs, cfg.group_size)
    if cfg.restart_episodes and not supports(env, Resettable):
        raise ValueError(
            f"{type(env).__name__} has no reset(env_ids), with which each rollout begins; add the method, or set "
            "algorithm.restart_episodes to false"
        )
    if supports(env, SharesStarts):
        env.share_starts(cfg.group_size)


def require_groups(num_envs: int, group_size: int) -> None:
    """Raise a ValueError if the number of environments is not a multiple of the group size."""
    if num_envs % group_size:
        raise ValueError(f"num_envs={num_envs} is not divisible by algorithm.group_size={group_size}; give a multiple")
