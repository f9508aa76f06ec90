"""What a recurrent update computes, against a loop over single steps with torch's own cells and distributions."""

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch.distributions import Normal

from rsl_rl.algorithms.ppo import PPO
from rsl_rl.modules.policy import ActorCriticRecurrent
from rsl_rl.storage.mini_batches import plan_chunks
from rsl_rl.utils.trajectories import as_states
from tests.learners import ppo_of

T, N, D, C, A, H = 6, 3, 4, 5, 2, 5
CLIP, VALUE_COEF, ENTROPY_COEF = 0.2, 1.0, 0.01


def make(kind, **settings) -> PPO:
    policy = ActorCriticRecurrent(
        D, C, A, rnn_type=kind, rnn_hidden_size=H, rnn_num_layers=2, actor_hidden_dims=(6,), critic_hidden_dims=(6,),
        critic_groups=("critic",),
    )  # fmt: skip
    settings = {"num_mini_batches": 1, "num_learning_epochs": 1, "max_grad_norm": 1e9, "schedule": "fixed", **settings}
    settings.update(clip_param=CLIP, value_loss_coef=VALUE_COEF, entropy_coef=ENTROPY_COEF)
    return ppo_of(policy, N, T, {"policy": D, "critic": C}, **settings)


def observe():
    return {"policy": torch.randn(N, D), "critic": torch.randn(N, C)}


def collect(ppo, dones) -> list:
    """Collect a rollout with a past; return both memories before each step."""
    with torch.no_grad():
        ppo.policy.act(torch.randn(N, D))
        ppo.policy.evaluate(torch.randn(N, C))
    memories = []
    for t in range(T):
        memories.append([as_states(state) for state in ppo.policy.get_hidden_states()])
        ppo.act(observe())
        ppo.process_env_step(torch.randn(N), dones[t], {})
    ppo.compute_returns(observe())
    with torch.no_grad():  # the update meets other weights than those that acted
        for parameter in ppo.policy.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return memories


def cell_step(memory, x, states):
    """One step of torch's cells over all layers."""
    cell = torch.gru_cell if memory.rnn.mode == "GRU" else torch.lstm_cell
    after = []
    for layer in range(memory.rnn.num_layers):
        before = [s[layer] for s in states]
        new = cell(x, before[0] if len(before) == 1 else before, *memory.layer_weights(layer))
        after.append(new if isinstance(new, tuple) else (new,))
        x = after[-1][0]
    return x, tuple(torch.stack(parts) for parts in zip(*after))


def replay(memory, observations, dones, states, steps):
    """The outputs of a memory over some steps of a rollout, forgetting after each done, and the states after them."""
    outputs = []
    for t in steps:
        y, states = cell_step(memory, observations[t], states)
        states = tuple(s * (~dones[t]).float().view(1, -1, 1) for s in states)
        outputs.append(y)
    return outputs, states


def naive_loss(ppo, features_a, features_c, steps):
    """PPO's loss over some steps, from the outputs of the memories, with torch.distributions."""
    policy, columns = ppo.policy, ppo.storage.columns
    total = torch.zeros(())
    for features, critic_features, t in zip(features_a, features_c, steps):
        normal = Normal(policy.actor(features), policy.noise_std())
        log_prob = normal.log_prob(columns["actions"][t]).sum(-1)
        ratio = (log_prob - columns["actions_log_prob"][t, :, 0]).exp()
        advantage = columns["advantages"][t, :, 0]
        surrogate = -torch.min(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage)
        value, old, target = (
            policy.critic(critic_features)[:, 0],
            columns["values"][t, :, 0],
            columns["returns"][t, :, 0],
        )
        clipped = old + (value - old).clamp(-CLIP, CLIP)
        value_loss = torch.max((value - target) ** 2, (clipped - target) ** 2)
        total = total + (surrogate + VALUE_COEF * value_loss - ENTROPY_COEF * normal.entropy().sum(-1)).sum()
    return total / (len(steps) * N)


def chunk_features(ppo, memories, begin, first, stop):
    """Both memories' outputs over [first, stop): from their states at ``begin``, burnt in without gradient."""
    policy, groups, dones = ppo.policy, ppo.storage.groups, ppo.storage.columns["dones"][..., 0]
    outputs = []
    for memory, observations, states in (
        (policy.memory_a, groups["policy"], memories[begin][0]),
        (policy.memory_c, groups["critic"], memories[begin][1]),
    ):
        with torch.no_grad():
            _, states = replay(memory, observations, dones, states, range(begin, first))
        outputs.append(replay(memory, observations, dones, states, range(first, stop))[0])
    return outputs


def assert_update_has_gradients_of(expected_loss, ppo):
    expected = torch.autograd.grad(expected_loss, list(ppo.policy.parameters()))
    ppo.update()
    for (name, parameter), gradient in zip(ppo.policy.named_parameters(), expected):
        torch.testing.assert_close(parameter.grad, gradient, atol=1e-5, rtol=0.0, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("kind", ["gru", "lstm"])
@settings(max_examples=30)
@given(st.lists(st.lists(st.booleans(), min_size=N, max_size=N), min_size=T, max_size=T))
@example([[False] * N] * T)
@example([[True] * N] * T)
@example([[True] * N] + [[False] * N] * (T - 1))
@example([[False] * N] * (T - 1) + [[True] * N])
@example([[t == n + 1 for n in range(N)] for t in range(T)])  # no trajectory spans the rollout
def test_recurrent_update_with_any_dones_has_gradients_of_a_loop_over_steps(kind, dones):
    torch.manual_seed(0)
    ppo = make(kind)
    memories = collect(ppo, torch.tensor(dones))
    assert_update_has_gradients_of(naive_loss(ppo, *chunk_features(ppo, memories, 0, 0, T), range(T)), ppo)


@pytest.mark.parametrize("kind", ["gru", "lstm"])
@pytest.mark.parametrize("burn_in", [0, 1, 5])
@pytest.mark.parametrize("residue", ["last", "drop", "null_padding"])
def test_recurrent_update_in_chunks_has_gradients_of_exact_parts_of_the_rollout(kind, burn_in, residue):
    ppo = make(kind, unroll_len=4, last_fn_type=residue, burn_in=burn_in)
    memories = collect(ppo, torch.rand(T, N) < 0.2)
    pieces = {"last": [(0, 4), (2, 6)], "drop": [(0, 4)], "null_padding": [(0, 4), (4, 6)]}[residue]
    losses = [
        naive_loss(ppo, *chunk_features(ppo, memories, max(0, first - burn_in), first, stop), range(first, stop))
        * (stop - first)
        for first, stop in pieces
    ]
    assert_update_has_gradients_of(sum(losses) / sum(stop - first for first, stop in pieces), ppo)


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_recurrent_update_with_null_padding_trains_equal_weights(kind):
    """Ten steps of padding behind the rollout change nothing of the weights after an update."""
    trained = []
    for unroll_len in (T, T + 10):
        torch.manual_seed(3)
        ppo = make(kind, num_mini_batches=2, num_learning_epochs=3, schedule="adaptive")
        ppo.storage.plan = plan_chunks(T, unroll_len, "null_padding")
        collect(ppo, torch.rand(T, N) < 0.2)
        ppo.update()
        trained.append([parameter.detach().clone() for parameter in ppo.policy.parameters()])
    for exact, padded in zip(*trained):
        torch.testing.assert_close(padded, exact, atol=1e-5, rtol=1e-4)


def test_saved_hidden_states_of_a_large_rollout_take_less_than_20_mb():
    policy = ActorCriticRecurrent(
        4, 4, 2, rnn_type="lstm", rnn_hidden_size=256, actor_hidden_dims=(), critic_hidden_dims=()
    )
    ppo = ppo_of(policy, 4096, 24, {"policy": 4})
    with torch.no_grad():  # a past
        policy.act(torch.randn(4096, 4))
        policy.evaluate(torch.randn(4096, 4))
    for _ in range(2):
        ppo.act({"policy": torch.randn(4096, 4)})
        ppo.process_env_step(torch.zeros(4096), torch.zeros(4096), {})
    saved = [state for states in ppo.storage.saved_states for state in states]
    size = sum(s.untyped_storage().nbytes() for s in saved)
    assert len(saved) == 4 and size == 4 * 4096 * 256 * 4 < 20e6
