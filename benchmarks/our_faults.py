"""A worker: trainings with this library in an environment that breaks, one after the other."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any, Callable, Dict, Mapping, cast

import torch

from benchmarks.faulty_point import FaultyPoint, mean_reward, watch
from benchmarks.serving import serve
from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.config.learn import LearnConfig, RunnerConfig
from rsl_rl.config.policy import ActorCriticConfig
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner


def build(settings: dict) -> Callable[[], Dict[str, Any]]:
    torch.set_num_threads(1)  # the networks are too small for more
    cases = iter(settings["cases"])
    return lambda: train({**settings, **next(cases)})


def train(case: Mapping[str, Any]) -> Dict[str, Any]:
    """Train with one kind of fault and return the results; see ``watch`` for the first entries."""
    torch.manual_seed(case["seed"])
    env = FaultyPoint(case["num_envs"], case["seed"], case["kind"], case["rate"])
    with tempfile.TemporaryDirectory() as folder:
        runner = OnPolicyRunner(cast(VecEnv, env), learn_config(case), log_dir=folder)
        outcome = watch(runner.alg, [runner.alg.policy], lambda: runner.learn(case["iterations"]))
        lines = (Path(folder) / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        postmortems = sorted(path.stem for path in Path(folder).glob("postmortem/*.json"))
    records = [json.loads(line) for line in lines]
    return {
        **outcome,
        "return": mean_reward(runner.get_inference_policy()),
        "events": env.num_events,
        "broken": env.broken,
        "counted": {cause: total(records, f"faults/{cause}") for cause in env.broken},
        "unusable": env.num_unusable,
        "left_out": total(records, "excluded_steps"),
        "skipped": total(records, "skipped_steps"),
        "postmortems": postmortems,
    }


def learn_config(case: Mapping[str, Any]) -> LearnConfig:
    """Return the settings of a training, with observation normalisation, which faults could affect too."""
    dims = tuple(case["hidden_dims"])
    return LearnConfig(
        policy=ActorCriticConfig(
            actor_hidden_dims=dims,
            critic_hidden_dims=dims,
            actor_obs_normalization=True,
            critic_obs_normalization=True,
        ),
        algorithm=PPOConfig(entropy_coef=0.0, gamma=0.9),
        runner=RunnerConfig(num_steps_per_env=case["num_steps"], save_interval=10, keep_last=1, logger="none"),
    )


def total(records: list, name: str) -> float:
    """Sum a number over the records of metrics.jsonl that have it."""
    return sum(record.get(name) or 0 for record in records)


if __name__ == "__main__":
    serve(build)
