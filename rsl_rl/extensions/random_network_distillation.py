"""A reward for novel observations."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Union

import torch
from torch import Tensor, nn

from rsl_rl.acceleration.flat_adam import FlatAdam
from rsl_rl.algorithms.extension import Extension
from rsl_rl.config.base import linear
from rsl_rl.config.extensions import RNDConfig
from rsl_rl.distributed import SINGLE_PROCESS, Collective
from rsl_rl.env.vec_env import Observations, VecEnv, require_group
from rsl_rl.modules.mlp import mlp
from rsl_rl.modules.normalizer import RunningNorm
from rsl_rl.modules.policy import ActorCritic
from rsl_rl.storage.mini_batches import MiniBatch, weighted_mean
from rsl_rl.storage.rollout import RolloutStorage, Transition


class RandomNetworkDistillation(Extension):
    """Reward observations that a trained network predicts badly (Burda et al. 2018, https://arxiv.org/abs/1810.12894).

    The target network is random and never trained; the predictor is trained on the observations of each mini-batch to
    give the same outputs. The reward of a step is ``weight`` times the distance between the outputs of both for the
    observation after it; where the step ended an episode, that is the first observation of the next one. It is added to
    the environment's reward, and one critic values the sum. Masked steps get no reward and are not learned from.

    rsl_rl multiplies the weight by the duration of a control step. Here it is used as it is: to take a weight over from
    there, multiply it. Metrics are ``rnd_loss``, ``rnd_weight`` and ``intrinsic_reward``, the mean of a step.
    """

    def __init__(self, cfg: RNDConfig, num_inputs: int, device: Union[str, torch.device] = "cpu"):
        self.cfg, self.groups = cfg, cfg.groups
        self.predictor = mlp(num_inputs, cfg.predictor_hidden_dims, cfg.num_outputs, cfg.activation).to(device)
        self.target = mlp(num_inputs, cfg.target_hidden_dims, cfg.num_outputs, cfg.activation).to(device)
        self.target.requires_grad_(False)
        self.state_normalizer = RunningNorm(num_inputs).to(device) if cfg.state_normalization else nn.Identity()
        self.reward_normalizer = RewardNormalizer(cfg.gamma).to(device) if cfg.reward_normalization else NoNormalizer()
        parameters = list(self.predictor.parameters())
        rate = torch.tensor(cfg.learning_rate, device=device)
        self.optimizer = FlatAdam(parameters, (parameters,), rate, max_grad_norm=float("inf"))
        self.num_steps = 0  # control steps of each environment
        self._sums = torch.zeros(2, device=device)  # of the rewards in this rollout, and of their sample masks

    @classmethod
    def from_env(
        cls, cfg: RNDConfig, env: VecEnv, policy: ActorCritic, device: Union[str, torch.device]
    ) -> RandomNetworkDistillation:
        obs = env.get_observations()
        for group in cfg.groups:
            require_group(obs, group, "RNDConfig.groups names")
            if obs[group].dim() != 2:
                raise ValueError(f"RNDConfig.groups: '{group}' has the shape {list(obs[group].shape)}; give vectors")
        return cls(cfg, sum(obs[group].shape[-1] for group in cfg.groups), device)

    @property
    def weight(self) -> float:
        """Weight of the reward of the last control step."""
        return scheduled_weight(self.cfg, self.num_steps)

    @torch.no_grad()
    def reward(self, transition: Transition, next_obs: Observations, dones: Tensor) -> Tensor:
        self.num_steps += 1
        mask = transition.columns["sample_mask"]
        states = self._states(next_obs)
        distance = torch.linalg.vector_norm(self.target(states) - self.predictor(states), dim=-1, keepdim=True)
        distance = torch.where(mask > 0, distance, 0.0)
        reward = self.weight * self.reward_normalizer(distance, mask, self.collective)
        self._sums += torch.stack((reward.sum(), mask.sum()))
        return reward

    def learn(self, batch: MiniBatch) -> Dict[str, Tensor]:
        states = self._states(batch.groups)
        self.optimizer.zero_grad()
        with torch.enable_grad():
            errors = (self.predictor(states) - self.target(states)).square().mean(dim=-1, keepdim=True)
            loss = weighted_mean(errors, batch.sample_mask)
            loss.backward()
        loss = loss.detach()
        weight = self.collective.weighted_mean((*self.optimizer.gradients, loss), batch.sample_mask.sum())
        self.optimizer.step_where_finite(loss.isfinite() & (weight > 0))
        return {"rnd_loss": loss}

    @torch.no_grad()
    def update(self, storage: RolloutStorage) -> Dict[str, Tensor]:
        if isinstance(self.state_normalizer, RunningNorm):
            mask = storage.columns["sample_mask"]
            self.state_normalizer.update(self._observed(storage.groups), mask, self.collective)
        total, count = self.collective.sum(self._sums).unbind()
        metrics = {
            "rnd_weight": torch.full_like(total, self.weight),
            "intrinsic_reward": total / count.clamp(min=1.0),
        }
        self._sums = torch.zeros_like(self._sums)
        return metrics

    def state_dict(self) -> Dict[str, Any]:
        parts = {name: getattr(self, name).state_dict() for name in self._PARTS}
        return {**parts, "num_steps": self.num_steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for name in self._PARTS:
            getattr(self, name).load_state_dict(state[name])
        self.num_steps = int(state["num_steps"])

    _PARTS = ("predictor", "target", "state_normalizer", "reward_normalizer", "optimizer")

    def _states(self, obs: Observations) -> Tensor:
        """Return what both networks read of observation groups [..., size]."""
        return self.state_normalizer(self._observed(obs))

    def _observed(self, obs: Observations) -> Tensor:
        return torch.cat([obs[group] for group in self.groups], dim=-1).float()


class NoNormalizer(nn.Module):
    """Rewards are used as they are."""

    def forward(self, rewards: Tensor, sample_mask: Tensor, collective: Collective = SINGLE_PROCESS) -> Tensor:
        return rewards


class RewardNormalizer(NoNormalizer):
    """Divide the rewards of a step by the running standard deviation of their discounted sums.

    The sums go on over the ends of episodes, as in the paper: novelty does not end with an episode.
    """

    def __init__(self, gamma: float):
        super().__init__()
        self.gamma = gamma
        self.statistics = RunningNorm(1)
        self.sums: Optional[Tensor] = None  # [N, 1]

    def forward(self, rewards: Tensor, sample_mask: Tensor, collective: Collective = SINGLE_PROCESS) -> Tensor:
        if self.sums is None or self.sums.shape != rewards.shape:  # the first step, or another number of environments
            self.sums = torch.zeros_like(rewards)
        self.sums = self.gamma * self.sums + rewards
        self.statistics.update(self.sums, sample_mask, collective)
        std = self.statistics.var.sqrt()
        return rewards / torch.where(std > 0, std, 1.0)

    def get_extra_state(self) -> Any:
        return self.sums

    def set_extra_state(self, state: Any) -> None:
        self.sums = state


def scheduled_weight(cfg: RNDConfig, step: int) -> float:
    """Return the weight of the reward of a control step, counted from 1."""
    if cfg.weight_schedule == "step":
        return cfg.weight if step < cfg.final_step else cfg.final_weight
    if cfg.weight_schedule == "linear":
        progress = (step - cfg.initial_step) / (cfg.final_step - cfg.initial_step)
        return linear(cfg.weight, cfg.final_weight, min(1.0, max(0.0, progress)))
    return cfg.weight
