import pytest
import torch

from configs import EXPERIMENTS
from rsl_rl.config.task import ToyConfig
from rsl_rl.env import ContractError, StepResult, check_vec_env
from rsl_rl.env.contract import standardize_step
from rsl_rl.tasks.toy import PointEnv


class Altered(PointEnv):
    """A toy whose step results are altered on the way out."""

    def __init__(self, alter):
        super().__init__(ToyConfig(num_envs=4))
        self.alter = alter

    def step(self, actions):
        return self.alter(super().step(actions))


def without_time_outs(result):
    return result._replace(extras={})


CORRECTED = {
    "done as float": (lambda r: r._replace(done=r.done.float()), "done is float32"),
    "done as integers": (lambda r: r._replace(done=r.done.long()), "done is int64"),
    "done as a column": (lambda r: r._replace(done=r.done.unsqueeze(1)), r"done has the shape \[4, 1\]"),
    "reward as a column": (lambda r: r._replace(reward=r.reward.unsqueeze(1)), r"reward has the shape \[4, 1\]"),
    "no time_outs": (without_time_outs, "no time_outs"),
    "time_outs as float": (
        lambda r: r._replace(extras={"time_outs": r.extras["time_outs"].float()}),
        "time_outs'] is float32",
    ),
}

REFUSED = {
    "five values": (lambda r: (*r, None), "step.. gives 5 values; return StepResult"),
    "a bare tensor": (lambda r: r._replace(obs=r.obs["policy"]), "gives a Tensor; return a dict of groups"),
    "no policy group": (lambda r: r._replace(obs={"state": r.obs["policy"]}), "without 'policy'"),
    "other groups": (lambda r: r._replace(obs={**r.obs, "extra": r.obs["policy"]}), "keep groups and shapes the same"),
    "nan in observations": (lambda r: r._replace(obs={"policy": r.obs["policy"] * float("nan")}), "not finite"),
    "inf in rewards": (lambda r: r._replace(reward=r.reward + float("inf")), "reward holds values that are not finite"),
    "reward of another shape": (lambda r: r._replace(reward=r.reward.expand(4, 4)), r"reward has the shape \[4, 4\]"),
    "integer rewards": (lambda r: r._replace(reward=r.reward.long()), "reward is int64"),
    "done as a list": (lambda r: r._replace(done=r.done.tolist()), "done is a list; give a torch tensor"),
    "done of counts": (lambda r: r._replace(done=r.done + 2), "done holds values other than 0 and 1"),
    "too few rows": (lambda r: r._replace(reward=r.reward[:2]), "first dimension must be num_envs=4"),
    "no extras": (lambda r: r._replace(extras=None), "extras is a NoneType"),
    "another device": (lambda r: r._replace(reward=r.reward.to("meta")), "keep every tensor on env.device"),
}


@pytest.mark.parametrize("case", CORRECTED)
def test_what_can_be_corrected_is_said(case):
    alter, words = CORRECTED[case]
    corrections = check_vec_env(Altered(alter))
    assert any(__import__("re").search(words, sentence) for sentence in corrections), corrections


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_corrected_is_refused_with_a_remedy(case):
    alter, words = REFUSED[case]
    with pytest.raises(ContractError, match=words):
        check_vec_env(Altered(alter))


def test_missing_attributes_are_named():
    env = PointEnv(ToyConfig(num_envs=4))
    del env.max_episode_length
    with pytest.raises(ContractError, match="PointEnv has no max_episode_length"):
        check_vec_env(env)


def test_a_reused_extras_dict_is_noticed():
    extras = {}

    def stale(result):
        extras.setdefault("time_outs", result.extras["time_outs"])
        return result._replace(extras=extras)

    assert any("stale" in sentence for sentence in check_vec_env(Altered(stale)))


def test_corrections_are_carried_out():
    result = standardize_step(StepResult({}, torch.ones(3, 1, dtype=torch.float64), torch.tensor([[0], [1], [0]]), {}))
    assert result.reward.shape == (3,) and result.reward.dtype == torch.float32
    assert result.done.tolist() == [False, True, False]


@pytest.mark.parametrize("name", EXPERIMENTS.names())
def test_every_experiment_keeps_the_contract(name):
    from dataclasses import replace

    cfg = EXPERIMENTS.load(name)()
    assert check_vec_env(replace(cfg.env, num_envs=4).build(), num_steps=10) == []
