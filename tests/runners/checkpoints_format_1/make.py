"""Write the files of this folder; see README.md for the version of the code that has to run it."""

import shutil
import sys
import tempfile
from pathlib import Path

import torch
from cases import ACTING_STEPS, ITERATIONS, MORE_ITERATIONS, POLICIES, config_of
from pair_env import PairEnv

from configs import EXPERIMENTS
from rsl_rl.runners import OnPolicyRunner
from rsl_rl.utils.config_io import to_dict, write_yaml

HERE = Path(__file__).resolve().parent


def draw_observations():
    """Return groups [T, 8, size], and where episodes end [T, 8]."""
    obs = {name: torch.randn(ACTING_STEPS, 8, size) for name, size in (("policy", 3), ("critic", 4))}
    return obs, torch.rand(ACTING_STEPS, 8) < 0.2


def act(runner, obs, done):
    """Return the mean actions of a policy for observations, their standard deviation, and its values."""
    policy, actor_critic = runner.get_inference_policy(), runner.alg.policy
    actor_critic.reset()
    actions, values = [], []
    with torch.no_grad():
        for t in range(ACTING_STEPS):
            groups = {name: group[t] for name, group in obs.items()}
            actions.append(policy(groups))
            values.append(actor_critic.evaluate(groups))
            policy.reset(done[t])
            actor_critic.reset(done[t])
        std = actor_critic.noise_std().clone()
    return {"actions": torch.stack(actions), "values": torch.stack(values), "std": std}


def make(name, obs, done):
    """Write a checkpoint; return what its policy did, and the weights after some more iterations, side by side."""
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as folder:
        runner = OnPolicyRunner(PairEnv(), config_of(name), folder)
        runner.learn(ITERATIONS)
        shutil.copyfile(Path(folder) / f"model_{ITERATIONS}.pt", HERE / f"{name}.pt")
        expected = act(runner, obs, done)
        resumed = OnPolicyRunner(PairEnv(seed=7), config_of(name))
        resumed.load(HERE / f"{name}.pt")
        resumed.learn(MORE_ITERATIONS)
    weights = resumed.alg.policy.state_dict()
    return {**expected, "resumed": torch.cat([value.flatten().float() for value in weights.values()])}


if __name__ == "__main__":
    print("made with", sys.modules["rsl_rl"].__file__)
    torch.manual_seed(5)
    obs, done = draw_observations()
    cases = {name: make(name, obs, done) for name in POLICIES}
    torch.save({"obs": obs, "done": done, "cases": cases}, HERE / "expected.pt")
    for task in ("go2_flat", "go2_flat_blind"):
        write_yaml(to_dict(EXPERIMENTS.load(task)()), HERE / f"{task}.yaml")
