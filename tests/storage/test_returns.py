import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rsl_rl.storage.returns import bootstrap_timeouts, gae


def naive_gae(rewards, values, last_values, dones, gamma, lam):
    """The definition, one environment and one step at a time."""
    num_steps, num_envs = rewards.shape
    advantages = torch.zeros(num_steps, num_envs)
    for env in range(num_envs):
        advantage = 0.0
        for t in reversed(range(num_steps)):
            next_value = last_values[env] if t == num_steps - 1 else values[t + 1, env]
            going_on = 0.0 if dones[t, env] else 1.0
            delta = rewards[t, env] + gamma * next_value * going_on - values[t, env]
            advantage = delta + gamma * lam * going_on * advantage
            advantages[t, env] = advantage
    return advantages


def test_gae_of_constant_reward_is_a_geometric_series():
    zeros = torch.zeros(5, 2)
    advantages = gae(zeros + 1, zeros, zeros[0], zeros.bool(), gamma=0.9, lam=1.0)
    torch.testing.assert_close(advantages[:, 0], torch.tensor([(1 - 0.9 ** (5 - t)) / 0.1 for t in range(5)]))


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 9), st.integers(1, 4), st.floats(0, 1), st.floats(0, 1), st.integers(0, 2**31))
def test_gae_of_random_rollouts_equals_the_naive_loop(num_steps, num_envs, gamma, lam, seed):
    generator = torch.Generator().manual_seed(seed)
    rewards, values = (torch.randn(num_steps, num_envs, generator=generator) for _ in range(2))
    dones = torch.rand(num_steps, num_envs, generator=generator) < 0.3
    last = torch.randn(num_envs, generator=generator)
    torch.testing.assert_close(
        gae(rewards, values, last, dones, gamma, lam), naive_gae(rewards, values, last, dones, gamma, lam)
    )


def test_gae_leaves_its_inputs_unchanged():
    rewards, values = torch.randn(4, 2), torch.randn(4, 2)
    before = rewards.clone(), values.clone()
    gae(rewards, values, torch.zeros(2), torch.zeros(4, 2, dtype=torch.bool), 0.9, 0.9)
    assert torch.equal(rewards, before[0]) and torch.equal(values, before[1])


def test_bootstrap_timeouts_where_not_done_adds_nothing():
    rewards, final = (
        torch.zeros(3),
        torch.tensor([10.0, float("nan"), float("nan")]),
    )  # rows that do not count hold junk
    time_outs, dones = torch.tensor([True, True, False]), torch.tensor([True, False, True])
    assert bootstrap_timeouts(rewards, final, time_outs, dones, 0.9).tolist() == pytest.approx([9.0, 0.0, 0.0])
