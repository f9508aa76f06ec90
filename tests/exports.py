"""A policy that has hardly learned, ready to be exported."""

from dataclasses import replace
from pathlib import Path
from typing import Tuple

import torch

from configs import EXPERIMENTS
from rsl_rl.config.experiment import TrainConfig
from rsl_rl.runners import OnPolicyRunner
from rsl_rl.runners.loading import LoadedPolicy, load_policy


def lively_policy(task: str, folder: Path) -> Tuple[TrainConfig, LoadedPolicy]:
    """Save a policy of a task in a folder, with weights that react to the observations; return config and policy."""
    cfg = EXPERIMENTS.load(task)()
    cfg = replace(cfg, sim_device="cpu", rl_device="cpu", env=replace(cfg.env, num_envs=8))
    env = cfg.env.build(seed=1)
    runner = OnPolicyRunner(env, cfg)
    with torch.no_grad():
        for parameter in runner.alg.policy.parameters():
            parameter.mul_(1.5)
    runner.save(folder / "model_0.pt")
    return cfg, load_policy(cfg, env, folder)
