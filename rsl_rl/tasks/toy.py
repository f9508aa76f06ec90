"""Environments without physics, for tests and for a first look at the trainer."""

from __future__ import annotations

from typing import Any, Dict, Sequence, Union

import torch
from torch import Tensor

from rsl_rl.config.task import RecallConfig, ToyConfig
from rsl_rl.env.vec_env import Observations, StepResult, VecEnv


class ToyEnv(VecEnv):
    """What toys have in common: episodes of fixed length, one action, and a state [N] drawn anew at their start."""

    num_actions = 1
    num_privileged_obs = None
    privileged_obs_buf = None

    def __init__(self, cfg: ToyConfig, num_obs: int, device: str, seed: int):
        self.cfg = cfg
        self.num_envs, self.num_obs = cfg.num_envs, num_obs
        self.max_episode_length = cfg.episode_steps
        self.device = torch.device(device)
        self._generator = torch.Generator(self.device).manual_seed(seed)
        self.x = torch.zeros(self.num_envs, device=self.device)
        self.episode_length_buf = torch.zeros(self.num_envs, dtype=torch.long, device=self.device)
        self.extras: Dict[str, Any] = {}
        self.reset()

    def _draw(self) -> Tensor:
        """Draw the states [N] that episodes begin with."""
        raise NotImplementedError

    def _observe(self) -> Tensor:
        """Return the observation [N, D] of the present state."""
        raise NotImplementedError

    def get_observations(self) -> Observations:
        return {"policy": self.obs_buf}

    def reset(self, env_ids: Union[Sequence[int], Tensor, None] = None) -> Observations:
        mask = torch.zeros(self.num_envs, dtype=torch.bool, device=self.device)
        mask[slice(None) if env_ids is None else torch.as_tensor(env_ids)] = True
        self._reset(mask)
        return self.get_observations()

    def _finish_step(self, rewards: Tensor, failed: Tensor) -> StepResult:
        """Count the step, end episodes and begin others."""
        self.episode_length_buf += 1
        time_outs = (self.episode_length_buf >= self.max_episode_length) & ~failed
        self.reset_buf = failed | time_outs
        self.rew_buf = rewards
        self.extras = {"time_outs": time_outs, "final_obs": {"policy": self._observe()}}
        self._reset(self.reset_buf)
        return StepResult(self.get_observations(), self.rew_buf, self.reset_buf, self.extras)

    def _reset(self, mask: Tensor) -> None:
        self.x = torch.where(mask, self._draw(), self.x)
        self.episode_length_buf = self.episode_length_buf.masked_fill(mask, 0)
        self.obs_buf = self._observe()

    def state_dict(self) -> Dict[str, Tensor]:
        return {
            "x": self.x.clone(),
            "episode_length": self.episode_length_buf.clone(),
            "obs": self.obs_buf.clone(),  # of the state when it was shown: ages may have been set since
            "generator": self._generator.get_state(),
        }

    def load_state_dict(self, state: Dict[str, Tensor]) -> None:
        if len(state["x"]) != self.num_envs:
            raise ValueError(
                f"the state is of num_envs={len(state['x'])} and this environment has {self.num_envs}; take as many, "
                "or load it with load_env=False (--fresh_episodes)"
            )
        self.x = state["x"].to(self.device, copy=True)
        self.episode_length_buf = state["episode_length"].to(self.device, copy=True)
        self._generator.set_state(state["generator"].cpu())
        self.obs_buf = state["obs"].to(self.device, copy=True) if "obs" in state else self._observe()


class PointEnv(ToyEnv):
    """N points on a line, x' = x + 0.2 clip(a, -1, 1), rewarded by 1 - |x|; beyond |x| = 3 the episode fails.

    Points start in [-2, 2]. The best policy walks to the origin at full speed and stays; doing nothing earns about 0 a
    step.
    """

    def __init__(self, cfg: ToyConfig, device: str = "cpu", seed: int = 0):
        super().__init__(cfg, num_obs=1, device=device, seed=seed)

    def _draw(self) -> Tensor:
        return 4.0 * torch.rand(self.num_envs, device=self.device, generator=self._generator) - 2.0

    def _observe(self) -> Tensor:
        return self.x.unsqueeze(1)

    def step(self, actions: Tensor) -> StepResult:
        self.x = self.x + 0.2 * actions[:, 0].clamp(-1.0, 1.0)
        return self._finish_step(1.0 - self.x.abs(), failed=self.x.abs() > 3.0)


class RecallEnv(ToyEnv):
    """N signs, -1 or 1, each shown in the first observation of its episode and never again; the reward of a step is
    1 - |action - sign|.

    The observation is the sign, or 0 once it has been shown, and whether it is shown now. A policy that remembers earns
    1 a step. One that does not can only earn that in the first step of an episode, and 0 on average in every other,
    whatever it does within [-1, 1].
    """

    def __init__(self, cfg: RecallConfig, device: str = "cpu", seed: int = 0):
        super().__init__(cfg, num_obs=2, device=device, seed=seed)

    def _draw(self) -> Tensor:
        return 2.0 * torch.randint(2, (self.num_envs,), device=self.device, generator=self._generator).float() - 1.0

    def _observe(self) -> Tensor:
        shown = (self.episode_length_buf == 0).float()
        return torch.stack((self.x * shown, shown), dim=1)

    def step(self, actions: Tensor) -> StepResult:
        return self._finish_step(1.0 - (actions[:, 0] - self.x).abs(), failed=torch.zeros_like(self.x).bool())
