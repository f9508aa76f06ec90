import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rsl_rl.storage.returns import bootstrap_timeouts, gae, group_advantages, normalize


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


@given(st.integers(1, 6), st.integers(1, 4), st.floats(0, 1), st.integers(0, 2**31))
def test_normalize_of_masked_advantages_equals_the_naive_loop(num_steps, num_envs, rate, seed):
    generator = torch.Generator().manual_seed(seed)
    advantages = 3.0 + 2.0 * torch.randn(num_steps, num_envs, 1, generator=generator)
    mask = (torch.rand(num_steps, num_envs, 1, generator=generator) < rate).float()
    before = advantages.clone()
    learned = [a for a, m in zip(advantages.flatten().tolist(), mask.flatten().tolist()) if m]
    mean = sum(learned) / max(1, len(learned))
    std = (sum((a - mean) ** 2 for a in learned) / max(1, len(learned) - 1)) ** 0.5
    expected = [
        (a - mean) / (std + 1e-8) if m else 0.0 for a, m in zip(advantages.flatten().tolist(), mask.flatten().tolist())
    ]
    normalized = normalize(advantages, mask)
    assert normalized.shape == advantages.shape and torch.equal(advantages, before)
    if len(learned) != 1:  # of a single sample nothing but rounding is left, divided by 1e-8
        torch.testing.assert_close(normalized.flatten(), torch.tensor(expected), atol=1e-4, rtol=1e-4)
    assert (normalized[mask == 0] == 0).all()


def test_group_advantages_of_known_returns_are_those_on_paper():
    returns = torch.tensor([[1.0, 3.0, 10.0, 10.0], [0.0, 6.0, 5.0, 7.0]])
    mask = torch.tensor([[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 0.0]])
    expected = torch.tensor([[-1.0, 1.0, 0.0, 0.0], [-1.0, 1.0, 0.0, 0.0]])
    torch.testing.assert_close(group_advantages(returns, mask, 2), expected)
    expected = torch.tensor([[-1.0, 1.0, 0.0, 0.0], [-3.0, 3.0, 0.0, 0.0]])
    torch.testing.assert_close(group_advantages(returns, mask, 2, scale=False), expected)


@given(st.integers(1, 5), st.integers(1, 3), st.integers(2, 4), st.booleans(), st.integers(0, 2**31))
def test_group_advantages_of_random_returns_equal_the_naive_loop(num_steps, num_groups, size, scale, seed):
    generator = torch.Generator().manual_seed(seed)
    returns = torch.randn(num_steps, num_groups * size, generator=generator)
    mask = (torch.rand(num_steps, num_groups * size, generator=generator) < 0.7).float()
    expected = torch.zeros_like(returns)
    for t in range(num_steps):
        for group in range(num_groups):
            members = [i for i in range(group * size, (group + 1) * size) if mask[t, i]]
            mean = sum(returns[t, i].item() for i in members) / max(1, len(members))
            variance = sum((returns[t, i].item() - mean) ** 2 for i in members) / max(1, len(members))
            for i in members:
                expected[t, i] = (returns[t, i] - mean) / (variance**0.5 + 1e-6 if scale else 1.0)
    torch.testing.assert_close(group_advantages(returns, mask, size, scale), expected, rtol=1e-3, atol=1e-4)
