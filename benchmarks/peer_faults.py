"""A worker: the trainings of our_faults.py with rsl-rl-lib 5.5."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, cast

import torch
from tensordict import TensorDict

from benchmarks.faulty_point import FaultyPoint, mean_reward, watch
from benchmarks.serving import serve
from rsl_rl.runners import OnPolicyRunner


def build(settings: dict) -> Callable[[], Dict[str, Any]]:
    torch.set_num_threads(1)
    cases = iter(settings["cases"])
    return lambda: train({**settings, **next(cases)})


def train(case: Mapping[str, Any]) -> Dict[str, Any]:
    torch.manual_seed(case["seed"])
    env = FaultyPoint(case["num_envs"], case["seed"], case["kind"], case["rate"], wrap=as_tensordict)
    runner: Any = OnPolicyRunner(cast(Any, env), learn_config(case), log_dir=None, device="cpu")
    outcome = watch(runner.alg, [runner.alg.actor, runner.alg.critic], lambda: runner.learn(case["iterations"]))
    policy = runner.get_inference_policy(device="cpu")
    return {**outcome, "return": mean_reward(policy, as_tensordict), "events": env.num_events}


def as_tensordict(groups: Dict[str, torch.Tensor]) -> TensorDict:
    return TensorDict(cast(Any, groups), batch_size=[len(groups["policy"])])


def learn_config(case: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the settings of our_faults.py in this library's words."""
    network = {
        "class_name": "MLPModel",
        "hidden_dims": case["hidden_dims"],
        "activation": "elu",
        "obs_normalization": True,
    }
    noise = {"class_name": "GaussianDistribution", "init_std": 1.0, "std_type": "scalar"}
    return {
        "num_steps_per_env": case["num_steps"],
        "save_interval": 10,
        "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
        "actor": {**network, "distribution_cfg": noise},
        "critic": network,
        "algorithm": {
            "class_name": "PPO",
            "num_learning_epochs": 5,
            "num_mini_batches": 4,
            "learning_rate": 1e-3,
            "schedule": "adaptive",
            "desired_kl": 0.01,
            "entropy_coef": 0.0,
            "gamma": 0.9,
        },
    }


serve(build)
