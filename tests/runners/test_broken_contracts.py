"""Environments that break their contract, before or in the middle of a training."""

import json
import sys

import pytest
import torch

from rsl_rl.cli.main import main
from rsl_rl.compat.env import ExtrasEnv, FiveTupleEnv
from rsl_rl.config.task import ToyConfig
from rsl_rl.env import ContractError
from rsl_rl.env.adapters.foreign import GroupsEnv
from rsl_rl.runners.runner import Runner
from rsl_rl.tasks.toy import PointEnv

N = 4


class Changing(PointEnv):
    """A toy whose steps are changed after a number of them."""

    def __init__(self, change=None, after=10, **attributes):
        super().__init__(ToyConfig(num_envs=N))
        self.change, self.after = change, after
        vars(self).update(attributes)

    def step(self, actions):
        result = super().step(actions)
        self.after -= 1
        return result if self.after >= 0 or self.change is None else self.change(result)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"num_actions": -2}, "num_actions=-2; give a whole number from 1 to 100000"),
        ({"num_actions": 10**9}, "num_actions=1000000000; give a whole number from 1 to 100000"),
        ({"num_envs": 10**12}, "num_envs=1000000000000; give a whole number from 1 to 100000000"),
        ({"num_actions": "x"}, "num_actions='x'; give a whole number"),
        ({"num_envs": None}, "num_envs=None; give a whole number"),
        ({"max_episode_length": "x"}, "max_episode_length='x'; give a positive number of control steps"),
        ({"max_episode_length": torch.ones(N) + 1j}, "max_episode_length is complex64; give real numbers"),
        ({"max_episode_length": torch.ones(N, device="meta")}, "max_episode_length lies on the device meta"),
        ({"device": 3.5}, "device=3.5 is not a device"),
    ],
)
def test_attribute_that_cannot_be_is_a_contract_error(small_cfg, attributes, message):
    with pytest.raises(ContractError, match=message):
        Runner(Changing(**attributes), small_cfg)


class WithoutWidth(PointEnv):
    def get_observations(self):
        return {"policy": torch.zeros(N, 0)}

    def step(self, actions):
        result = super().step(actions)
        return result._replace(obs=self.get_observations(), extras={"time_outs": result.done})


def test_observations_without_width_are_a_contract_error(small_cfg):
    with pytest.raises(ContractError, match=r"\['policy'\] has the shape \[4, 0\]; give at least one number"):
        Runner(WithoutWidth(ToyConfig(num_envs=N)), small_cfg)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r._replace(reward=r.reward.tolist()), "reward is a list; give a torch tensor in every step"),
        (lambda r: r._replace(reward=r.reward + 1j), "reward is complex64; give real numbers in every step"),
        (lambda r: r._replace(obs=None), "the observations: a NoneType in this step; give a dict of groups"),
        (lambda r: None, r"step\(\) gives a NoneType; return StepResult"),
    ],
)
def test_step_that_breaks_the_contract_in_a_training_saves_and_raises(small_cfg, tmp_path, change, message):
    runner = Runner(Changing(change, after=20), small_cfg, tmp_path)
    with pytest.raises(ContractError, match=message):
        runner.learn(9)
    assert runner.current_learning_iteration == 2 and (tmp_path / "model_2.pt").is_file()


def without_reward(result):
    return result._replace(reward=None)


def leave(result):
    sys.exit(0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without_reward, "reward is a NoneType; give a torch tensor in every step"),
        (leave, "the task, or code that it calls, has ended the process (sys.exit(0))"),
    ],
)
def test_error_of_an_environment_in_a_training_of_the_command_line_is_one_line_and_exit_code_1(
    monkeypatch, tmp_path, capsys, change, message
):
    original, calls = PointEnv.step, iter(range(10**6))
    monkeypatch.setattr("sys.argv", ["rsl-rl"])

    def step(self, actions):
        result = original(self, actions)
        return result if next(calls) < 30 else change(result)

    monkeypatch.setattr(PointEnv, "step", step)
    flags = ["--num_envs", "8", "--runner.num_steps_per_env", "8", "--logger", "none", "--log_root", str(tmp_path)]
    assert main(["train", "--task", "toy", *flags]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"rsl-rl train: failed after iteration 3: {message}"


@pytest.mark.parametrize("after", [0, 20])
@pytest.mark.parametrize(
    ("extras", "name"),
    [
        ({"log": {"gait": "trot", "speed": 2.0}}, "episode/gait is a str"),
        ({"episode": {"gait": None, "speed": torch.full((N,), 2.0)}}, "episode/gait is a NoneType"),
        ({"log": {"gait": 1j, "speed": [2.0]}}, "episode/gait is a complex"),
        ({"log": {"gait": 10**400, "speed": 2}}, "episode/gait is a int"),
        ({"log": {"gait": torch.ones(2, device="meta"), "speed": 2}}, "episode/gait is a Tensor"),
        ({"log": {"gait": torch.ones(2).to_sparse(), "speed": 2}}, "episode/gait is a Tensor"),
        ({"log": "trot", "episode": {"speed": 2.0}}, r"extras['log'] is a str"),
        ({"log": torch.zeros(N), "episode": {"speed": 2.0}}, r"extras['log'] is a Tensor"),
    ],
)
def test_log_entry_that_is_no_number_is_left_out_with_one_warning(small_cfg, tmp_path, capsys, after, extras, name):
    env = Changing(lambda r: r._replace(extras={**r.extras, **extras}), after)
    runner = Runner(env, small_cfg, tmp_path)
    runner.learn(6)
    warnings = [line for line in capsys.readouterr().out.splitlines() if line.startswith("warning")]
    assert warnings == [f"warning: {name} and is left out of the log; give numbers or tensors of them"]
    records = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert records[-1]["episode/speed"] == 2.0 and "episode/gait" not in records[-1]


class Client:
    """An environment of another interface, which returns what it is given."""

    def __init__(self, result):
        self.result = result

    def step(self, actions):
        return self.result


OBS = torch.zeros(N, 1)
BROKEN = (None, "x", [0.0] * N)


@pytest.mark.parametrize("broken", BROKEN)
def test_adapters_leave_broken_rewards_and_extras_to_the_checks(broken):
    assert GroupsEnv(Client(({"policy": OBS}, broken, OBS, broken)), OBS).step(OBS)[1] is broken
    result = FiveTupleEnv(Client((OBS, None, broken, OBS, broken)), OBS).step(OBS)
    assert result.reward is broken and result.extras == ({} if broken is None else broken)
    assert ExtrasEnv(Client((OBS, broken, OBS, broken)), OBS).step(OBS).obs == {"policy": OBS}


@pytest.mark.parametrize("result", [None, (OBS,), (OBS,) * 6])
@pytest.mark.parametrize("adapter", [GroupsEnv, ExtrasEnv])
def test_adapters_name_a_result_of_another_form(adapter, result):
    with pytest.raises(ContractError, match=r"step\(\) gives .*; return StepResult"):
        adapter(Client(result), OBS).step(OBS)
