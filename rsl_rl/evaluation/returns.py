"""Evaluate a policy in any task by the returns of whole episodes."""

from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple, Optional

import torch
from torch import Tensor

from rsl_rl.env.contract import standardize_step
from rsl_rl.env.vec_env import Observations, VecEnv
from rsl_rl.evaluation.conditions import ActingPolicy

MAX_STEPS = 100_000
"""Control steps after which an episode that does not end is cut off."""


class EpisodeReturns(NamedTuple):
    """The first episode of each instance of an environment."""

    returns: Tensor  # [N] undiscounted sum of rewards
    lengths: Tensor  # [N] control steps
    num_unfinished: int  # episodes cut off after MAX_STEPS

    def summary(self) -> Dict[str, Any]:
        """Return the numbers of a report by name."""
        returns, lengths = self.returns.double(), self.lengths.double()
        return {
            "mean_return": returns.mean().item(),
            "std_return": returns.std(unbiased=False).item(),
            "min_return": returns.min().item(),
            "max_return": returns.max().item(),
            "mean_length": lengths.mean().item(),
            "episodes": len(returns),
        }


@torch.no_grad()
def episode_returns(
    env: VecEnv,
    policy: ActingPolicy,
    max_steps: int = MAX_STEPS,
    act: Optional[Callable[[Observations], Tensor]] = None,
) -> EpisodeReturns:
    """Run one episode in every instance of a new environment.

    ``act`` chooses the actions in place of the policy, such as one that draws them from their distribution.
    """
    act, obs = act or policy, env.get_observations()
    policy.reset()
    device = next(iter(obs.values())).device
    returns = torch.zeros(env.num_envs, dtype=torch.float64, device=device)
    lengths = torch.zeros(env.num_envs, dtype=torch.int64, device=device)
    running = torch.ones(env.num_envs, dtype=torch.bool, device=device)
    for _ in range(max_steps):
        obs, reward, done, _ = standardize_step(env.step(act(obs).to(env.device)), env.num_envs)
        returns += torch.where(running, reward, torch.zeros_like(reward))
        lengths += running
        running &= ~done
        policy.reset(done)
        if not running.any():
            break
    return EpisodeReturns(returns, lengths, int(running.sum()))
