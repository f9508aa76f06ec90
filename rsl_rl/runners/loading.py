"""Load trained policies from run folders."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from rsl_rl.config.learn import LearnConfig
from rsl_rl.distributed import SINGLE_PROCESS
from rsl_rl.env.vec_env import VecEnv
from rsl_rl.runners.inference import InferencePolicy
from rsl_rl.runners.runner import Runner
from rsl_rl.utils.checkpoints import Which, find_checkpoint


class LoadedPolicy(NamedTuple):
    """A trained policy and its checkpoint."""

    policy: InferencePolicy
    checkpoint: Path
    env_steps: int  # environment steps of its training
    runner: Runner


def load_policy(cfg: LearnConfig, env: VecEnv, run: Path, which: Which = -1) -> LoadedPolicy:
    """Load the policy of one of a run's checkpoints for an environment of the same task, onto the environment's device;
    errors are ValueErrors."""
    checkpoint = find_checkpoint(run, which)
    acting_only = LearnConfig(  # with the smallest rollout
        policy=cfg.policy,
        algorithm=cfg.algorithm.for_acting(),
        runner=replace(cfg.runner, num_steps_per_env=2),
        acceleration=cfg.acceleration,
        safety=cfg.safety,
    )
    from rsl_rl.runners import OnPolicyRunner  # which also reads files of rsl_rl 1 to 5

    runner = OnPolicyRunner(env, acting_only, device=str(env.device), collective=SINGLE_PROCESS)
    runner.load(checkpoint, load_optimizer=False)
    return LoadedPolicy(runner.get_inference_policy(), checkpoint, runner.tot_timesteps, runner)
