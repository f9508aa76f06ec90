"""Trained policies, back from their run folders."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from rsl_rl.config.learn import LearnConfig
from rsl_rl.env.vec_env import VecEnv
from rsl_rl.runners.checkpoint import find_checkpoint
from rsl_rl.runners.inference import InferencePolicy
from rsl_rl.runners.on_policy_runner import OnPolicyRunner


class LoadedPolicy(NamedTuple):
    """A policy that acts, and where it came from."""

    policy: InferencePolicy
    checkpoint: Path
    env_steps: int  # that it was trained for
    runner: OnPolicyRunner


def load_policy(cfg: LearnConfig, env: VecEnv, run: Path, iteration: int = -1) -> LoadedPolicy:
    """Load the policy of a run's checkpoint (-1: the newest) for an environment of the same task; errors are
    ValueErrors."""
    checkpoint = find_checkpoint(run, iteration)
    runner = OnPolicyRunner(env, cfg)
    runner.load(checkpoint, load_optimizer=False)
    return LoadedPolicy(runner.get_inference_policy(), checkpoint, runner.tot_timesteps, runner)
