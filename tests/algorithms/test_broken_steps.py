"""Updates with masked steps, and with numbers that are not finite."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rsl_rl.algorithms.ppo import PPO
from rsl_rl.modules.policy import ActorCritic, ActorCriticRecurrent
from tests.learners import ppo_of

T, N, D, A = 6, 8, 3, 2
NETS = {"actor_hidden_dims": (8,), "critic_hidden_dims": (8,), "actor_obs_normalization": True}
KINDS = {"mlp": (None, {}), "gru": ("gru", {}), "lstm in chunks": ("lstm", {"unroll_len": 4, "burn_in": 1})}


def make(kind, **settings) -> PPO:
    torch.manual_seed(1)
    memory, chunks = KINDS[kind]
    if memory:
        net = ActorCriticRecurrent(D, D, A, rnn_type=memory, rnn_hidden_size=5, **NETS)
    else:
        net = ActorCritic(D, D, A, **NETS)
    settings = {"num_mini_batches": 2, "num_learning_epochs": 2, **chunks, **settings}
    return ppo_of(net, N, T, {"policy": D}, **settings)


def collect(ppo, valid, junk=None, done_rate=0.1) -> None:
    """A rollout drawn from one seed; where it is not valid [T, N], rewards are junk, and so are observations that
    such a step led to."""
    draw = torch.Generator().manual_seed(2)
    for t in range(T):
        obs, reward = torch.randn(N, D, generator=draw), torch.randn(N, generator=draw)
        done = (torch.rand(N, generator=draw) < done_rate) | ~valid[t]
        if junk is not None:
            sound = valid[t] | valid[t - 1] if t > 0 else valid[t]
            obs = torch.where(sound.unsqueeze(1), obs, junk * torch.ones_like(obs))
            reward = torch.where(valid[t], reward, junk * torch.ones_like(reward))
        ppo.act({"policy": obs})
        ppo.process_env_step(reward, done, {"valid": valid[t]})
    ppo.compute_returns({"policy": torch.randn(N, D, generator=draw)})


def state_of(ppo):
    moments = [value for own in ppo.learner.optimizer.state_dict()["state"].values() for value in own.values()]
    return [value.clone() for value in ppo.policy.state_dict().values()] + moments


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=30)
@given(st.integers(0, 1000), st.floats(0.0, 0.9))
def test_update_with_any_content_of_invalid_steps_has_equal_gradients(kind, seed, rate):
    valid = torch.rand(T, N, generator=torch.Generator().manual_seed(seed)) >= rate
    results = []
    for junk in (None, 0.0, 7.0):
        ppo = make(kind, num_mini_batches=1, num_learning_epochs=1)
        collect(ppo, valid, junk)
        metrics = ppo.update().metrics
        gradients = [parameter.grad.clone() for parameter in ppo.policy.parameters()]
        results.append([*gradients, *ppo.policy.buffers(), *metrics.values()])
    # Gradients, statistics of the normaliser, losses; sums in float32 over zeros in other places round otherwise.
    for a, b, c in zip(*results):
        torch.testing.assert_close(b, a, atol=1e-6, rtol=1e-5, equal_nan=True)
        torch.testing.assert_close(c, a, atol=1e-6, rtol=1e-5, equal_nan=True)


def test_returns_before_an_invalid_step_end_with_its_value():
    ppo = make("mlp", gamma=0.9, lam=0.8)
    valid = torch.ones(T, N, dtype=torch.bool)
    valid[3, 0] = False
    collect(ppo, valid, junk=100.0, done_rate=0.0)
    columns = ppo.storage.columns
    values, returns, rewards = (columns[name][:, 0, 0] for name in ("values", "returns", "rewards"))
    # As if the rollout of this environment had ended before it, with the critic's word for what would have come.
    error = [rewards[t] + 0.9 * values[t + 1] - values[t] for t in range(3)]
    expected = [error[0] + 0.72 * error[1] + 0.72**2 * error[2], error[1] + 0.72 * error[2], error[2]]
    torch.testing.assert_close(returns[:3] - values[:3], torch.stack(expected))
    others = torch.ones(T, N, dtype=torch.bool)
    others[3, 0] = False
    learned = columns["advantages"].squeeze(-1)[others]
    assert learned.mean().abs() < 1e-6 and learned.std().item() == pytest.approx(1.0, rel=1e-5)
    assert columns["advantages"][3, 0] == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, 1e30])
def test_update_with_a_non_finite_return_skips_its_gradient_steps(kind, number):
    ppo = make(kind, schedule="fixed")
    collect(ppo, torch.ones(T, N, dtype=torch.bool))
    ppo.update()
    collect(ppo, torch.ones(T, N, dtype=torch.bool))
    ppo.storage.columns["returns"][0, 0] = (
        number  # in one of two mini-batches of each epoch; 1e30 overflows when it is squared
    )
    before = state_of(ppo)
    metrics, steps_taken, steps_skipped = ppo.update()
    after = state_of(ppo)
    assert all(torch.isfinite(x).all() for x in after)
    assert not all(torch.equal(a, b) for a, b in zip(before, after))  # the other mini-batches were learned from
    assert metrics["skipped_steps"] == steps_taken == 2 and 1 <= steps_skipped <= 2
    assert all(math.isfinite(value) for value in metrics.values())


@pytest.mark.parametrize("kind", KINDS)
def test_update_with_all_steps_invalid_changes_nothing(kind):
    ppo = make(kind)
    collect(ppo, torch.ones(T, N, dtype=torch.bool))
    ppo.update()
    before, rate = state_of(ppo), ppo.learning_rate
    for updates in (1, 2):
        collect(ppo, torch.zeros(T, N, dtype=torch.bool), junk=5.0)
        metrics, steps_taken, steps_skipped = ppo.update()
        assert metrics["skipped_steps"] == 4 and steps_taken == 0 and steps_skipped == 4 * updates
        assert math.isnan(metrics["kl"])
    assert all(torch.equal(a, b) for a, b in zip(before, state_of(ppo))) and ppo.learning_rate == rate
    collect(ppo, torch.ones(T, N, dtype=torch.bool))
    assert ppo.update().steps_skipped == 8 and ppo.learner.skips_in_row == 0


def test_update_whose_first_step_is_skipped_leaves_adam_untouched():
    ppo = make("mlp")
    collect(ppo, torch.ones(T, N, dtype=torch.bool))
    ppo.storage.columns["returns"].fill_(math.nan)
    before = state_of(ppo)
    ppo.update()
    normalizer = set(dict(ppo.policy.named_buffers()))
    names = list(ppo.policy.state_dict())
    for i, (a, b) in enumerate(zip(before, state_of(ppo))):
        assert torch.equal(a, b) or (i < len(names) and names[i] in normalizer)


def test_state_dict_loaded_into_another_ppo_restores_everything():
    ppo, other = make("gru"), make("gru")
    collect(ppo, torch.ones(T, N, dtype=torch.bool))
    ppo.update()
    other.load_state_dict(ppo.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(state_of(ppo), state_of(other)))
    assert other.learning_rate == ppo.learning_rate
