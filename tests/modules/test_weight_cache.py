"""Weights cached for a rollout: what depends on them alone is computed once."""

import copy

import pytest
import torch

from rsl_rl.acceleration import Acceleration
from rsl_rl.config.learn import AccelerationConfig
from rsl_rl.modules.policy import (
    ActorCritic,
    ActorCriticRecurrent,
    SymmetricActorCritic,
    SymmetricActorCriticRecurrent,
)
from tests.learners import ppo_of

N, T, D, A = 6, 5, 4, 2
MIRRORS = {
    "actor_mirror": ((1, 0, 2, 3), (1.0, 1.0, -1.0, 1.0)),
    "critic_mirror": ((1, 0, 2, 3), (1.0, 1.0, -1.0, 1.0)),
    "action_mirror": ((1, 0), (-1.0, -1.0)),
}
NETS = {"actor_hidden_dims": (8, 6), "critic_hidden_dims": (8, 6)}
MEMORY = {"rnn_type": "lstm", "rnn_hidden_size": 6, "rnn_num_layers": 2}
GRU = {"rnn_type": "gru", "rnn_hidden_size": 6}
KINDS = {
    "plain": lambda: ActorCritic(D, D, A, **NETS),
    "another activation": lambda: ActorCritic(D, D, A, activation="gelu", **NETS),
    "recurrent": lambda: ActorCriticRecurrent(D, D, A, **NETS, **MEMORY),
    "symmetric": lambda: SymmetricActorCritic(D, D, A, **NETS, **MIRRORS),
    "symmetric, recurrent": lambda: SymmetricActorCriticRecurrent(D, D, A, **NETS, **MEMORY, **MIRRORS),
    "symmetric GRU of one layer": lambda: SymmetricActorCriticRecurrent(D, D, A, **NETS, **GRU, **MIRRORS),
}


@pytest.fixture(params=KINDS)
def policy(request):
    torch.manual_seed(0)
    policy = KINDS[request.param]()
    Acceleration(AccelerationConfig(), torch.device("cpu")).accelerate_networks(policy)
    return policy


def answers(policy):
    """Return the outputs of a policy with zero states for some observations."""
    policy.reset()
    torch.manual_seed(2)
    obs = torch.randn(N, D)
    with torch.no_grad():
        return [
            policy.act(obs),
            policy.act(-obs),
            policy.evaluate(obs),
            policy.evaluate(-obs, advance=False),
            policy.distribution.std,
        ]


def move(policy):
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.3)


def all_equal(some, others):
    return all(torch.equal(a, b) for a, b in zip(some, others))


def test_cached_weights_give_equal_bits_until_the_cache_is_cleared(policy):
    before = answers(policy)
    policy.cache_weights()
    assert all_equal(answers(policy), before)
    move(policy)
    policy.clear_cache()
    fresh = copy.deepcopy(policy)
    assert all_equal(answers(policy), answers(fresh)) and not all_equal(answers(policy), before)


def test_gradients_with_cached_weights_are_those_of_the_present_weights(policy):
    policy.cache_weights()
    move(policy)
    twin = copy.deepcopy(policy)
    twin.clear_cache()
    obs = torch.randn(N, D)
    for each in (policy, twin):
        each.update_distribution(obs)
        (each.distribution.mean.sum() + each.distribution.std.sum() + each.evaluate(obs).sum()).backward()
    pairs = list(zip(policy.parameters(), twin.parameters()))
    assert all(torch.equal(a.grad, b.grad) for a, b in pairs if a.grad is not None or b.grad is not None)


def test_load_state_dict_and_snapshot_clear_the_cache(policy):
    other = copy.deepcopy(policy)
    move(other)
    policy.cache_weights()
    twin = policy.snapshot()
    move(twin)
    policy.load_state_dict(other.state_dict())
    assert all_equal(answers(policy), answers(other)) and all_equal(answers(twin), answers(other))


def test_rollout_caches_weights_from_its_begin_to_its_returns(policy, monkeypatch):
    """Two iterations, with and without a cache: the same weights."""
    calls = []

    def learn(policy):
        torch.manual_seed(1)
        ppo = ppo_of(policy, N, T, {"policy": D}, num_mini_batches=2, learning_rate=1e-2)
        for _ in range(2):
            ppo.begin_rollout()
            for _ in range(T):
                ppo.act({"policy": torch.randn(N, D)})
                calls.append("act")
                extras = {"time_outs": torch.rand(N) < 0.5, "final_obs": {"policy": torch.randn(N, D)}}
                ppo.process_env_step(torch.randn(N), torch.rand(N) < 0.3, extras)
            ppo.compute_returns({"policy": torch.randn(N, D)})
            ppo.update()
        return list(policy.parameters())

    free, cache, clear = copy.deepcopy(policy), policy.cache_weights, policy.clear_cache
    monkeypatch.setattr(free, "cache_weights", lambda: None)
    theirs = learn(free)
    calls.clear()
    monkeypatch.setattr(policy, "cache_weights", lambda: calls.append("cache") or cache())
    monkeypatch.setattr(policy, "clear_cache", lambda: calls.append("clear") or clear())
    ours = learn(policy)
    assert calls == ["cache", *["act"] * T, "clear"] * 2
    assert all_equal(ours, theirs)
