"""Environments without physics, for tests and for a first look at the trainer."""

from __future__ import annotations

from typing import Any, Dict, Sequence, Union

import torch
from torch import Tensor

from rsl_rl.config.task import ToyConfig
from rsl_rl.env.vec_env import Observations, StepResult, VecEnv


class PointEnv(VecEnv):
    """N points on a line, x' = x + 0.2 clip(a, -1, 1), rewarded by 1 - |x|; beyond |x| = 3 the episode fails.

    Points start in [-2, 2]. The best policy walks to the origin at full speed and stays; doing nothing earns about 0 a
    step.
    """

    def __init__(self, cfg: ToyConfig, device: str = "cpu", seed: int = 0):
        self.cfg = cfg
        self.num_envs, self.num_actions, self.num_obs, self.num_privileged_obs = cfg.num_envs, 1, 1, None
        self.max_episode_length = cfg.episode_steps
        self.device = torch.device(device)
        self._generator = torch.Generator(self.device).manual_seed(seed)
        self.x = torch.zeros(self.num_envs, device=self.device)
        self.episode_length_buf = torch.zeros(self.num_envs, dtype=torch.long, device=self.device)
        self.privileged_obs_buf = None
        self.extras: Dict[str, Any] = {}
        self.reset()

    def get_observations(self) -> Observations:
        return {"policy": self.obs_buf}

    def reset(self, env_ids: Union[Sequence[int], Tensor, None] = None) -> Observations:
        mask = torch.zeros(self.num_envs, dtype=torch.bool, device=self.device)
        mask[slice(None) if env_ids is None else torch.as_tensor(env_ids)] = True
        self._reset(mask)
        return self.get_observations()

    def step(self, actions: Tensor) -> StepResult:
        self.x = self.x + 0.2 * actions[:, 0].clamp(-1.0, 1.0)
        self.episode_length_buf += 1
        failed = self.x.abs() > 3.0
        time_outs = (self.episode_length_buf >= self.max_episode_length) & ~failed
        self.reset_buf = failed | time_outs
        self.rew_buf = 1.0 - self.x.abs()
        self.extras = {"time_outs": time_outs, "final_obs": {"policy": self.x.unsqueeze(1)}}
        self._reset(self.reset_buf)
        return StepResult(self.get_observations(), self.rew_buf, self.reset_buf, self.extras)

    def _reset(self, mask: Tensor) -> None:
        start = 4.0 * torch.rand(self.num_envs, device=self.device, generator=self._generator) - 2.0
        self.x = torch.where(mask, start, self.x)
        self.episode_length_buf = self.episode_length_buf.masked_fill(mask, 0)
        self.obs_buf = self.x.unsqueeze(1)

    def state_dict(self) -> Dict[str, Tensor]:
        return {
            "x": self.x.clone(),
            "episode_length": self.episode_length_buf.clone(),
            "generator": self._generator.get_state(),
        }

    def load_state_dict(self, state: Dict[str, Tensor]) -> None:
        if len(state["x"]) != self.num_envs:
            raise ValueError(f"the state is of num_envs={len(state['x'])} and this environment has {self.num_envs}")
        self.x = state["x"].to(self.device, copy=True)
        self.episode_length_buf = state["episode_length"].to(self.device, copy=True)
        self._generator.set_state(state["generator"].cpu())
        self.obs_buf = self.x.unsqueeze(1)
