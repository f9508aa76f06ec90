"""Token tasks: what is shown, what is rewarded and when."""

import pytest
import torch

from rsl_rl.config.task import ReverseConfig, TargetSumConfig
from rsl_rl.env import check_vec_env
from rsl_rl.env.protocols import Checkpointable, Resettable, SharesStarts, supports


@pytest.mark.parametrize("config", [ReverseConfig, TargetSumConfig])
def test_token_task_keeps_the_contract_and_comes_back(config):
    env = config(num_envs=6).build(seed=1)
    assert check_vec_env(env, actions=torch.zeros(6, 1, dtype=torch.int64)) == []
    assert supports(env, Resettable) and supports(env, Checkpointable) and supports(env, SharesStarts)
    other = config(num_envs=6).build(seed=2)
    other.load_state_dict(env.state_dict())
    for _ in range(9):  # through resets, whose draws must agree too
        tokens = torch.randint(5, (6, 1))
        a, b = env.step(tokens), other.step(tokens)
        assert torch.equal(a.obs["policy"], b.obs["policy"]) and torch.equal(a.reward, b.reward)


def test_reverse_rewards_the_share_of_right_tokens_when_the_answer_is_complete():
    env = ReverseConfig(num_envs=2, episode_steps=3, num_tokens=4).build()
    prompt = env.prompt.clone()
    shown = env.get_observations()["policy"]
    assert torch.equal(shown[:, :12].view(2, 3, 4).argmax(dim=2), prompt)
    for t in range(3):
        assert torch.equal(env.get_observations()["policy"][:, 12:].argmax(dim=1), torch.full((2,), t))
        right = prompt[:, 2 - t].clone()
        right[1] = right[1] if t == 1 else (right[1] + 1) % 4  # the second environment has one token right
        _, reward, done, extras = env.step(right.unsqueeze(1))
        assert done.all() == (t == 2) and not extras["time_outs"].any()
        assert reward.tolist() == pytest.approx([1.0, 1 / 3] if t == 2 else [0.0, 0.0])
    assert (env.answer == -1).all() and env.episode_length_buf.tolist() == [0, 0]


def test_target_sum_rewards_answers_that_add_up():
    env = TargetSumConfig(num_envs=200, episode_steps=2, num_tokens=3).build()
    prompt = env.prompt[:, 0].clone()
    assert set(prompt.tolist()) == {0, 1, 2, 3, 4}
    shown = env.get_observations()["policy"]
    assert shown.shape == (200, 2 * 5 + 3) and torch.equal(shown[:, :5].argmax(dim=1), prompt)
    first = prompt.clamp(max=2)
    obs, reward, done, _ = env.step(first.unsqueeze(1))
    assert torch.equal(obs["policy"][:, 5:10].argmax(dim=1), first) and not done.any() and (reward == 0).all()
    wrong = torch.arange(200) < 100
    last = torch.where(wrong, (prompt - first + 1) % 3, prompt - first)
    _, reward, done, _ = env.step(last.unsqueeze(1))
    assert done.all() and torch.equal(reward, (~wrong).float())


@pytest.mark.parametrize("tokens", [torch.zeros(4, 1), torch.zeros(4).long()])
def test_token_task_with_actions_that_are_no_indices_raises(tokens):
    env = ReverseConfig(num_envs=4).build()
    with pytest.raises(ValueError, match=r"give the index of a token, int64 \[4, 1\]"):
        env.step(tokens)


def test_shared_starts_are_those_of_environments_reset_together():
    env = ReverseConfig(num_envs=6).build(seed=1)
    env.share_starts(3)
    env.reset()
    assert torch.equal(env.prompt[[0, 0, 0, 3, 3, 3]], env.prompt) and not torch.equal(env.prompt[0], env.prompt[3])
    before = env.prompt.clone()
    env.reset([1, 2])
    assert torch.equal(env.prompt[1], env.prompt[2]) and torch.equal(env.prompt[[0, 3]], before[[0, 3]])
    assert not torch.equal(env.prompt[1], env.prompt[0])
