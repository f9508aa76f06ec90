"""Environments of Gymnasium as tasks of an experiment."""

import json
import sys
from dataclasses import replace

import pytest
import torch

gymnasium = pytest.importorskip("gymnasium")

from configs import EXPERIMENTS  # noqa: E402
from rsl_rl.cli.main import main  # noqa: E402
from rsl_rl.config.task import GymnasiumConfig  # noqa: E402
from rsl_rl.evaluation.returns import episode_returns  # noqa: E402
from rsl_rl.runners import OnPolicyRunner  # noqa: E402

CARTPOLE = GymnasiumConfig(id="CartPole-v1", num_envs=3)


def step_all(env, num_steps=30):
    """Return observations and rewards of steps with the first choice."""
    steps = [env.step(torch.zeros(3, 1, dtype=torch.int64)) for _ in range(num_steps)]
    return torch.stack([step.obs["policy"] for step in steps])


def test_equal_seeds_give_equal_episodes_and_instances_differ():
    first, same, other = (step_all(CARTPOLE.build(seed=seed)) for seed in (1, 1, 2))
    assert torch.equal(first, same) and not torch.equal(first, other)
    assert not torch.equal(first[:, 0], first[:, 1])


@pytest.mark.parametrize("vectorization", ["sync", "async", "vector_entry_point"])
def test_every_vectorization_gives_an_environment(vectorization):
    env = replace(CARTPOLE, vectorization=vectorization, settings={"sutton_barto_reward": True}).build(seed=1)
    assert (env.num_envs, env.num_actions, env.max_episode_length) == (3, 2, 500)
    assert env.step(torch.ones(3, 1, dtype=torch.int64)).reward.tolist() == [0.0] * 3  # this setting's reward
    env.client.close()


@pytest.mark.parametrize(
    ("cfg", "message"),
    [
        ({"id": "CartPoole-v1"}, "env.id='CartPoole-v1' cannot be made: Environment `CartPoole` doesn't exist"),
        ({"settings": {"gravity": 1}}, "'gravity'"),
        ({"id": "Pendulum-v1", "vectorization": "vector_entry_point"}, "doesn't have a vector entry point"),
    ],
)
def test_an_environment_that_cannot_be_made_is_named_in_one_line(cfg, message):
    with pytest.raises(ValueError, match=r"env.id='.*' cannot be made: .*") as raised:
        replace(CARTPOLE, **cfg).build()
    assert message in str(raised.value) and "\n" not in str(raised.value)


def test_a_missing_gymnasium_is_named_in_one_line(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    for name in [name for name in sys.modules if name.startswith("rsl_rl.env.adapters.gymnasium")]:
        monkeypatch.delitem(sys.modules, name)
    assert main(["train", "--task", "gym_cartpole", "--log_root", str(tmp_path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "gymnasium" in line and "install it with pip, or with an extra of rsl-rl-lib" in line


def test_the_recipe_balances_the_pole_and_its_evaluation_says_so(tmp_path, capsys):
    flags = ["--task", "gym_cartpole", "--log_root", str(tmp_path)]
    assert main(["train", *flags, "--max_iterations", "4", "--logger", "none"]) == 0
    assert main(["evaluate", *flags, "--episodes", "10"]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result["mean_return"] == result["mean_length"] > 60  # chance: about 22
    assert result["episodes"] == 10 and result["env_steps"] == 4 * 32 * 64
    assert main(["evaluate", *flags, "--episodes", "10", "--sample_actions"]) == 0
    sampled = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert 40 < sampled["mean_return"] != result["mean_return"]


class Countdown:
    """Instance i ends after i + 1 steps, and pays 1 per step."""

    num_envs, device = 3, "cpu"

    def __init__(self):
        self.ages = torch.zeros(3)

    def get_observations(self):
        return {"policy": self.ages.clone().unsqueeze(1)}

    def step(self, actions):
        self.ages += 1
        done = self.ages > torch.arange(3)
        self.ages[done] = 0
        return self.get_observations(), torch.ones(3), done, {}


class Stay:
    """Gives the same action always."""

    def __call__(self, obs):
        return torch.zeros(3, 1)

    def reset(self, dones=None):
        pass


def test_returns_are_those_of_the_first_episode_of_each_instance():
    episodes = episode_returns(Countdown(), Stay())
    assert episodes.returns.tolist() == episodes.lengths.tolist() == [1, 2, 3] and episodes.num_unfinished == 0
    assert episode_returns(Countdown(), Stay(), max_steps=2).num_unfinished == 1
    assert episodes.summary()["mean_return"] == 2.0


def test_the_linear_schedule_of_a_resumed_training_goes_on_where_it_was():
    cfg = replace(EXPERIMENTS.load("gym_cartpole")(), env=CARTPOLE)
    runner = OnPolicyRunner(CARTPOLE.build(), cfg)
    rates = []
    runner.after_update.append(lambda iteration: rates.append(runner.alg.learning_rate) or {})
    runner.learn(2)
    runner.current_learning_iteration = 2
    runner.learn(2)  # of four
    assert rates == pytest.approx([1e-3, 0.5e-3, 0.5e-3, 0.25e-3])
