"""An algorithm that is not PPO, defined here, in the hands of the runner."""

import io
import json
import math
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch
from rich.console import Console

from rsl_rl.algorithms import Algorithm, UpdateResult
from rsl_rl.algorithms.build import build_policy
from rsl_rl.config.algorithm import AlgorithmConfig
from rsl_rl.config.learn import LearnConfig, SafetyConfig
from rsl_rl.config.task import ToyConfig
from rsl_rl.loggers import ConsoleLogger
from rsl_rl.runners import OnPolicyRunner, TrainingError
from rsl_rl.runners.loading import load_policy
from rsl_rl.storage.rollout import Transition
from rsl_rl.tasks.toy import PointEnv
from rsl_rl.utils.checkpoints import read_checkpoint
from rsl_rl.utils.config_io import from_dict, read_yaml


@dataclass(frozen=True)
class ReinforceConfig(AlgorithmConfig):
    builds: ClassVar[str] = f"{__name__}:Reinforce"

    learning_rate: float = 0.02


class Reinforce(Algorithm):
    """One step of gradient ascent on log-probabilities times normalised returns (Williams 1992). No critic."""

    def __init__(self, policy, learning_rate, device):
        self.policy, self.device = policy.to(device), device
        self.obs_groups = policy.actor_model.groups
        self.optimizer = torch.optim.SGD(policy.parameters(), learning_rate)
        self.skipped = torch.zeros(())

    @classmethod
    def from_env(cls, cfg, env, device):
        return cls(build_policy(cfg.policy, env, env.get_observations()), cfg.algorithm.learning_rate, device)

    @property
    def learning_rate(self):
        return self.optimizer.param_groups[0]["lr"]

    @learning_rate.setter
    def learning_rate(self, value):
        self.optimizer.param_groups[0]["lr"] = value

    def begin_rollout(self):
        self.steps = []

    def act(self, obs):
        groups = {name: obs[name].clone() for name in self.obs_groups}
        self.transition = Transition(groups, {"actions": self.policy.act(groups)})
        return self.transition.columns["actions"].clone()

    def process_env_step(self, rewards, dones, extras, next_obs=None):
        self.steps.append((self.transition, rewards.clone(), dones.clone(), extras["valid"].clone()))

    def compute_returns(self, obs):
        self.returns = [torch.zeros(())]
        for _, rewards, dones, _ in reversed(self.steps):
            self.returns.insert(0, rewards + 0.8 * self.returns[0] * ~dones)

    def update(self):
        returns, valid = torch.stack(self.returns[:-1]), torch.stack([step[3] for step in self.steps])
        obs = torch.stack([step[0].groups["policy"] for step in self.steps])
        actions = torch.stack([step[0].columns["actions"] for step in self.steps])
        log_prob = self.policy.update_distribution(obs).log_prob(actions).squeeze(-1)
        scores = returns - returns[valid].mean()
        loss = -(scores * log_prob)[valid].mean() / scores[valid].square().mean().sqrt()
        self.optimizer.zero_grad()
        loss.backward()
        if loss.isfinite():
            self.optimizer.step()
        self.skipped = (self.skipped + 1.0) * ~loss.isfinite()
        metrics = {"policy_gradient_loss": loss.detach(), "largest_return": returns.max()}
        return UpdateResult(metrics, loss.isfinite().float(), self.skipped)

    def state_dict(self):
        return {"model_state_dict": self.policy.state_dict(), "sgd": self.optimizer.state_dict()}

    def load_state_dict(self, state, load_optimizer=True):
        self.policy.load_state_dict(state["model_state_dict"])
        if load_optimizer:
            self.optimizer.load_state_dict(state["sgd"])
            self.skipped = torch.zeros(())


OF_THE_RUNNER = {
    "iteration", "env_steps", "collect_s", "learn_s", "steps_per_s", "mean_reward", "mean_episode_length",
    "excluded_steps",
}  # fmt: skip


@pytest.fixture
def cfg(small_cfg):
    return replace(small_cfg, algorithm=ReinforceConfig())


def toy(num_envs=64):
    return PointEnv(ToyConfig(num_envs=num_envs, episode_steps=10))


def records_of(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def weights(runner):
    return torch.cat([value.detach().flatten() for value in runner.alg.policy.parameters()])


def reward_of(policy, num_steps=20):
    env, total = toy(500), 0.0
    obs = env.get_observations()
    for _ in range(num_steps):
        obs, reward, _, _ = env.step(policy(obs))
        total += reward.mean().item() / num_steps
    return total


def test_another_algorithm_improves_its_policy(cfg):
    runner = OnPolicyRunner(toy(), replace(cfg, algorithm=ReinforceConfig(learning_rate=0.1)))
    before = reward_of(runner.get_inference_policy())
    runner.learn(60, init_at_random_ep_len=True)
    assert isinstance(runner.alg, Reinforce)
    assert before < 0.2 and reward_of(runner.get_inference_policy()) > 0.4  # at best 0.53, and 0 for doing nothing


def test_metrics_of_another_algorithm_are_logged_and_shown_as_they_are(cfg, tmp_path):
    runner = OnPolicyRunner(toy(), cfg, tmp_path)
    update, given = runner.alg.update, []
    runner.alg.update = lambda: given.append(update()) or given[-1]
    runner.learn(3)
    records = records_of(tmp_path)
    assert len(records) == 3
    for record, (metrics, _, _) in zip(records, given):
        own = {name: value.item() for name, value in metrics.items() if name in record}
        assert set(own) == {"policy_gradient_loss", "largest_return"}
        assert {name: record[name] for name in own} == own
        assert {name for name in record if not name.startswith("faults/")} == OF_THE_RUNNER | set(own)
    for terminal in (False, True):
        stream = io.StringIO()
        console = ConsoleLogger("toy", Console(file=stream, force_terminal=terminal, width=200))
        console.start(0, 3)
        console.write(records[-1])
        console.close()
        shown = " ".join(stream.getvalue().split())
        for name, value in own.items():
            assert name.replace("_", " ") in shown and f"{value:.4g}" in shown
        assert "loss" in shown and not any(word in shown for word in ("surrogate", "entropy", "kl", "noise", "skip"))


def test_an_algorithm_without_metrics_and_description_trains(cfg, tmp_path, capsys):
    runner = OnPolicyRunner(toy(), cfg, tmp_path)
    update = runner.alg.update
    runner.alg.update = lambda: update()._replace(metrics={})
    runner.learn(2)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[0] for line in lines] == ["iteration 1/2", "iteration 2/2"]
    assert {name for name in records_of(tmp_path)[1] if not name.startswith("faults/")} == OF_THE_RUNNER


def test_another_algorithm_resumes_as_if_never_stopped(cfg, tmp_path):
    torch.manual_seed(5)
    whole = OnPolicyRunner(toy(), cfg)
    whole.learn(4)
    torch.manual_seed(5)
    OnPolicyRunner(toy(), cfg, tmp_path).learn(2)
    assert {path.name for path in tmp_path.glob("model_*.pt")} == {"model_0.pt", "model_2.pt"}
    values = read_yaml(tmp_path / "config.yaml")
    values.pop("env")
    assert values["algorithm"] == {"kind": "ReinforceConfig", "learning_rate": 0.02}
    assert from_dict(LearnConfig, values) == cfg
    torch.manual_seed(99)
    resumed = OnPolicyRunner(toy(), replace(cfg, algorithm=ReinforceConfig(learning_rate=9.0)), tmp_path)
    resumed.load(tmp_path / "model_2.pt")
    resumed.learn(2)
    assert torch.equal(weights(whole), weights(resumed)) and resumed.alg.learning_rate == 0.02
    played = load_policy(cfg, toy(4), tmp_path, 4)
    obs = {"policy": torch.linspace(-2.0, 2.0, 4).unsqueeze(1)}
    assert torch.equal(played.policy(obs), resumed.get_inference_policy()(obs))


class Faulty(PointEnv):
    """A toy that alters some of its steps, once training has begun."""

    time = None

    def __init__(self, alter, steps):
        super().__init__(ToyConfig(num_envs=16, episode_steps=10))
        self.alter, self.steps = alter, steps

    def step(self, actions):
        result = super().step(actions)
        if self.time is not None:
            result = self.alter(result) if self.time in self.steps else result
            self.time += 1
        return result


def train(cfg, env, folder, iterations):
    runner = OnPolicyRunner(env, cfg, folder)
    env.time = 0
    runner.learn(iterations)
    return runner


def one_reward_is_nan(result):
    return result._replace(reward=torch.where(torch.arange(16) == 3, math.nan, result.reward))


def test_faults_are_masked_counted_and_reported_with_another_algorithm(cfg, tmp_path, capsys):
    runner = train(cfg, Faulty(one_reward_is_nan, {10, 11}), tmp_path, 2)
    valid = torch.stack([step[3] for step in runner.alg.steps])
    assert (~valid).nonzero().tolist() == [[2, 3], [3, 3]]
    assert all(step[2][3] and step[1][3] == 0 for step in runner.alg.steps[2:4])  # done, without a reward
    records = records_of(tmp_path)
    assert [record["faults/reward"] for record in records] == [0, 2]
    assert [record["excluded_steps"] for record in records] == [0, 2]
    assert weights(runner).isfinite().all() and all(math.isfinite(r["policy_gradient_loss"]) for r in records)
    line = "fault: reward (nan) in environment 3, iteration 2, step 2; 2 such steps in this iteration are masked"
    assert capsys.readouterr().out.count(line) == 1
    dump = torch.load(tmp_path / "postmortem" / "reward_2.pt", weights_only=True)
    assert {"obs/policy", "action", "next_obs/policy"} <= set(dump["seen_by_learner"])


def test_another_algorithm_is_rolled_back_and_then_given_up(cfg, tmp_path, capsys):
    """All rewards of iterations 3 to 6 are broken: no sample is left, and the loss is not a number."""
    cfg = replace(cfg, safety=SafetyConfig(max_skipped_steps=2, rollback_factor=0.25, max_rollbacks=1))
    env = Faulty(lambda result: result._replace(reward=result.reward * math.nan), range(16, 48))
    with pytest.raises(TrainingError, match=r"2 gradient steps in a row .* after 1 of 1 rollbacks"):
        train(cfg, env, tmp_path, 10)
    assert "rollback to the learner of iteration 2, learning rate 0.005 (rollback 1 of 1)" in capsys.readouterr().out
    assert [record["iteration"] for record in records_of(tmp_path)] == [1, 2, 3, 4, 5, 6]
    good, back = (read_checkpoint(tmp_path / f"model_{i}.pt") for i in (2, 4))
    assert all(torch.equal(a, b) for a, b in zip(*(s["model_state_dict"].values() for s in (good, back)), strict=True))
    assert back["sgd"]["param_groups"][0]["lr"] == 0.005 and back["counters"]["rollbacks"] == 1
