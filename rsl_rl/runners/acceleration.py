"""Ways to compute the same faster, put around an algorithm from outside."""

from __future__ import annotations

import torch

from rsl_rl.algorithms.ppo import PPO
from rsl_rl.config.learn import AccelerationConfig
from rsl_rl.utils.replay_graph import GraphedFunction


def accelerate(alg: PPO, cfg: AccelerationConfig) -> None:
    """Replace the steps of an algorithm by faster ones, as far as its device has them."""
    if cfg.bfloat16:
        alg.actor_critic.learn_in(torch.bfloat16)
    if cfg.compile:
        alg.loss = torch.compile(alg.loss)
    if cfg.cuda_graphs and alg.device.type == "cuda":
        alg.policy_step = GraphedFunction(alg.policy_step, alg.device)  # type: ignore[method-assign]
        alg.learning_step = GraphedFunction(alg.learning_step, alg.device)  # type: ignore[method-assign]
