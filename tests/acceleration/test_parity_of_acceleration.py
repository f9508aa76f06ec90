"""Accelerated implementations against plain PyTorch: autograd, torch's Adam, nn.Sequential and loops over cells."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from rsl_rl.acceleration import FlatAdam, lstm_scan, products
from rsl_rl.acceleration.ppo_loss_and_gradient import PPOLossAndGradient
from rsl_rl.acceleration.rnn_scan import FusedRNN, fused_scan
from rsl_rl.algorithms.ppo import PlainAdam, ppo_backward
from rsl_rl.config.learn import AccelerationConfig
from rsl_rl.modules.memory import LayerWeights, Memory, plain_scan
from rsl_rl.modules.mlp import MLP
from rsl_rl.modules.policy import (
    ActorCritic,
    ActorCriticRecurrent,
    SymmetricActorCritic,
    SymmetricActorCriticRecurrent,
)
from rsl_rl.utils.trajectories import ResetMasks
from tests.learners import ppo_of

T, N, D, C, A = 10, 12, 4, 5, 2
NETS = {"actor_hidden_dims": (16, 8), "critic_hidden_dims": (16, 8), "critic_groups": ("critic",)}
GRU = {"rnn_type": "gru", "rnn_hidden_size": 6, "rnn_num_layers": 2}
LSTM = {**GRU, "rnn_type": "lstm"}
MIRRORS = {
    "actor_mirror": ((1, 0, 2, 3), (1.0, 1.0, -1.0, 1.0)),
    "critic_mirror": ((0, 2, 1, 4, 3), (-1.0, 1.0, 1.0, -1.0, -1.0)),
    "action_mirror": ((1, 0), (-1.0, -1.0)),
}
POLICIES = {
    "mlp": lambda: ActorCritic(D, C, A, **NETS),
    "gru": lambda: ActorCriticRecurrent(D, C, A, **NETS, **GRU),
    "lstm": lambda: ActorCriticRecurrent(D, C, A, **NETS, **LSTM),
    "symmetric": lambda: SymmetricActorCritic(D, C, A, **NETS, **MIRRORS),
    "symmetric gru": lambda: SymmetricActorCriticRecurrent(D, C, A, **NETS, **MIRRORS, **GRU),
    "symmetric lstm": lambda: SymmetricActorCriticRecurrent(D, C, A, **NETS, **MIRRORS, **LSTM),
}
SETTINGS = {
    "default": {},
    "unclipped value loss": {"use_clipped_value_loss": False},
    "joint norm": {"joint_grad_norm": True, "max_grad_norm": 0.1},
    "separate norms": {"joint_grad_norm": False, "max_grad_norm": 0.1},
    "chunks, last": {"unroll_len": 4},
    "chunks, burn-in": {"unroll_len": 4, "burn_in": 2, "last_fn_type": "drop"},
    "chunks, padding": {"unroll_len": 4, "burn_in": 1, "last_fn_type": "null_padding"},
}
CASES = [
    (kind, name) for kind in POLICIES for name in SETTINGS if "chunks" not in name or kind.endswith(("gru", "lstm"))
]

GRADIENTS = {"atol": 2e-6, "rtol": 2e-5}
"""float32 sums in another order: 1e-7 of numbers up to 1, over some hundred terms."""
WEIGHTS = {"atol": 2e-5, "rtol": 0.0}
"""Adam divides a gradient by its own size, which enlarges rounding where the gradient is small; 2% of one step of
Adam, whose size is the learning rate, 1e-3. Measured: 2e-6 after 12 steps."""


def make_pair(kind, **settings):
    """Two PPOs of equal weights, plain and fused."""
    torch.manual_seed(3)
    policy = POLICIES[kind]()
    pair = []
    for fused in (False, True):
        groups, acceleration = {"policy": D, "critic": C}, AccelerationConfig(fused=fused)
        pair.append(ppo_of(copy.deepcopy(policy), N, T, groups, acceleration=acceleration, **settings))
    return pair


def observe():
    return {"policy": torch.randn(N, D), "critic": torch.randn(N, C)}


def collect(ppo, masked=True):
    """Collect a rollout of random numbers after a past."""
    with torch.no_grad():
        ppo.policy.act(torch.randn(N, D))
        ppo.policy.evaluate(torch.randn(N, C))
    for _ in range(T):
        ppo.act(observe())
        valid = torch.rand(N) > 0.2 * masked
        dones = (torch.rand(N) < 0.2) | ~valid
        ppo.process_env_step(torch.randn(N), dones, {"time_outs": torch.rand(N) < 0.5, "valid": valid})
    ppo.compute_returns(observe())


def copy_rollout(source, target):
    """Make the rollout of one PPO that of another one."""
    for name in ("groups", "columns"):
        for place, x in zip(getattr(target.storage, name).values(), getattr(source.storage, name).values()):
            place.copy_(x)
    target.storage.saved_states = copy.deepcopy(source.storage.saved_states)
    target.storage.step = source.storage.step


def perturb(pair):
    """Move both policies alike, away from the one that collected, so that ratios and values differ from the old."""
    with torch.no_grad():
        for p, q in zip(*(ppo.policy.parameters() for ppo in pair)):
            p.add_(0.2 * torch.randn_like(p))
            q.copy_(p)


def update_both(pair):
    metrics = []
    for ppo in pair:
        torch.manual_seed(7)  # equal mini-batches
        metrics.append(ppo.update().metrics)
    assert set(metrics[0]) == set(metrics[1])
    return metrics


def assert_close_parameters(pair, read, tolerances):
    for (name, p), q in zip(pair[0].policy.named_parameters(), pair[1].policy.parameters()):
        torch.testing.assert_close(read(q), read(p), **tolerances, msg=lambda m, name=name: f"{name}: {m}")


def test_fused_setting_selects_all_implementations():
    plain, fused = make_pair("symmetric lstm")
    assert type(plain.learner.optimizer) is PlainAdam and type(fused.learner.optimizer) is FlatAdam
    assert plain.learner.backward is ppo_backward and type(fused.learner.backward) is PPOLossAndGradient
    for ppo, expected in ((plain, False), (fused, True)):
        mlps = [module for module in ppo.policy.modules() if isinstance(module, MLP)]
        memories = [module for module in ppo.policy.modules() if isinstance(module, Memory)]
        assert [(module.kernel is not None) for module in mlps] == [expected] * 2
        assert [isinstance(module.kernel, FusedRNN) for module in memories] == [expected] * 2
    assert "none" in plain.description and "closed-form loss" in fused.description
    assert fused.description.endswith(f"(products by {products.library()})") and "products" not in plain.description


@pytest.mark.parametrize(("kind", "settings"), CASES)
def test_fused_update_has_losses_and_gradients_of_plain_pytorch(kind, settings):
    pair = make_pair(kind, num_mini_batches=1, num_learning_epochs=1, **SETTINGS[settings])
    collect(pair[0], masked=settings != "default")
    copy_rollout(*pair)
    perturb(pair)
    before = [p.detach().clone() for p in pair[0].policy.parameters()]
    plain, fused = update_both(pair)
    for name in plain:
        torch.testing.assert_close(fused[name], plain[name], **GRADIENTS, msg=lambda m, name=name: f"{name}: {m}")
    assert plain["kl"] > 1e-3 and plain["skipped_steps"] == 0
    assert_close_parameters(pair, lambda p: p.grad, GRADIENTS)
    assert not any(torch.equal(p, q) for p, q in zip(pair[0].policy.parameters(), before))


@pytest.mark.parametrize(("kind", "settings"), CASES)
def test_fused_updates_train_the_weights_of_plain_pytorch(kind, settings):
    # Fixed, since the adaptive schedule compares the KL of the first mini-batch, 0 up to rounding, with 0.
    pair = make_pair(kind, num_mini_batches=3, num_learning_epochs=2, schedule="fixed", **SETTINGS[settings])
    for _ in range(2):
        collect(pair[0])
        copy_rollout(*pair)
        plain, fused = update_both(pair)
        for name in plain:
            torch.testing.assert_close(fused[name], plain[name], atol=1e-5, rtol=1e-5)
        assert_close_parameters(pair, lambda p: p.detach(), WEIGHTS)
    states = (ppo.learner.optimizer.state_dict()["state"] for ppo in pair)
    for p, q in zip(*(state.values() for state in states)):
        assert p["step"] == q["step"] == 12
        torch.testing.assert_close(q["exp_avg"], p["exp_avg"], **GRADIENTS)


@pytest.mark.parametrize("kind", POLICIES)
def test_fused_rollout_has_actions_values_and_returns_of_plain_pytorch(kind):
    pair = make_pair(kind)
    for ppo in pair:
        torch.manual_seed(5)
        collect(ppo)
    plain, fused = (ppo.storage for ppo in pair)
    for name, column in plain.columns.items():
        torch.testing.assert_close(fused.columns[name], column, atol=1e-5, rtol=1e-4)  # float32, over T steps
    for x, y in zip(sum(plain.saved_states, ()), sum(fused.saved_states, ())):
        torch.testing.assert_close(y, x)


@pytest.mark.parametrize("kind", ["mlp", "gru"])
@pytest.mark.parametrize(
    "settings", [{"normalize_advantage_per_mini_batch": True}, {"policy": {"value_normalization": True}}]
)
def test_fused_update_with_transformed_batches_falls_back_to_the_autograd_loss(kind, settings, monkeypatch):
    settings = dict(settings)
    monkeypatch.setitem(globals(), "NETS", {**NETS, **settings.pop("policy", {})})
    pair = make_pair(kind, num_mini_batches=2, num_learning_epochs=2, **settings)
    assert pair[1].learner.backward is ppo_backward and type(pair[1].learner.optimizer) is FlatAdam
    for _ in range(2):
        collect(pair[0])
        copy_rollout(*pair)
        update_both(pair)
        assert_close_parameters(pair, lambda p: p.detach(), WEIGHTS)


# Scans over resets


def torch_scan(rnn, x, masks, states):
    """Run a torch layer of its own class step by step, with resets and gradient cuts between the steps."""
    outputs = []
    for t in range(len(x)):
        keep, passes = (mask[t].view(1, -1, 1) for mask in masks)
        states = tuple(torch.where(passes > 0, s, s.detach()) * keep for s in states)
        y, after = rnn(x[t : t + 1], states if len(states) == 2 else states[0])
        states = after if isinstance(after, tuple) else (after,)
        outputs.append(y)
    return torch.cat(outputs)


def scans(kind, num_steps, num_envs, num_inputs, size, masks):
    """Outputs and gradients of torch's layer, the plain scan and the fused scan, in float64."""
    rnn = {"gru": nn.GRU, "lstm": nn.LSTM}[kind](num_inputs, size).double()
    weights = LayerWeights(rnn.weight_ih_l0, rnn.weight_hh_l0, rnn.bias_ih_l0, rnn.bias_hh_l0)
    x = torch.randn(num_steps, num_envs, num_inputs, dtype=torch.float64).requires_grad_()
    shape = (num_envs, size)
    states = tuple(torch.randn(shape, dtype=torch.float64).requires_grad_() for _ in range(1 + (kind == "lstm")))
    push = torch.randn(num_steps, num_envs, size, dtype=torch.float64)
    results = []
    for y in (
        torch_scan(rnn, x, masks, tuple(s.unsqueeze(0) for s in states)),
        plain_scan(x, masks, weights, *states),
        fused_scan(x, masks, weights, *states),
    ):
        results.append((y.detach(), *torch.autograd.grad(y, [x, *weights, *states], push)))
    return results


@pytest.mark.parametrize("kind", ["gru", "lstm"])
@given(
    seed=st.integers(0, 2**31),
    num_steps=st.integers(1, 7),
    num_envs=st.integers(1, 5),
    resets=st.sampled_from([0.0, 0.3, 1.0]),
    cuts=st.sampled_from([0.0, 0.3, 1.0]),
)
def test_scans_with_random_resets_and_gradient_cuts_equal_torch_layers(kind, seed, num_steps, num_envs, resets, cuts):
    torch.manual_seed(seed)
    keep = (torch.rand(num_steps, num_envs, dtype=torch.float64) >= resets).double()
    passes = keep * (torch.rand(num_steps, num_envs) >= cuts)  # as Memory.sequence has it: none passes a reset
    expected, plain, fused = scans(kind, num_steps, num_envs, 3, 4, ResetMasks(keep, passes))
    for x, y, z in zip(expected, plain, fused):
        torch.testing.assert_close(y, x)  # float64 defaults: 1e-7
        torch.testing.assert_close(z, x)


@pytest.mark.parametrize("onednn", [False, True])
@pytest.mark.parametrize("fast_tanh", [False, True])
@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_scans_without_resets_on_any_cpu_equal_one_call_of_a_torch_layer(kind, fast_tanh, onednn, monkeypatch):
    monkeypatch.setattr(lstm_scan, "_tanh_is_fast", lambda: fast_tanh)
    monkeypatch.setattr(products, "prefers_onednn", lambda: onednn and torch.backends.mkldnn.is_available())
    rnn = {"gru": nn.GRU, "lstm": nn.LSTM}[kind](3, 4)
    weights = LayerWeights(rnn.weight_ih_l0, rnn.weight_hh_l0, rnn.bias_ih_l0, rnn.bias_hh_l0)
    x, states = torch.randn(20, 6, 3), tuple(torch.randn(6, 4) for _ in range(1 + (kind == "lstm")))
    first = tuple(s.unsqueeze(0) for s in states)
    expected, _ = rnn(x, first if kind == "lstm" else first[0])
    for scan in (plain_scan, fused_scan):
        y = scan(x, ResetMasks.none((20, 6)), weights, *states)
        torch.testing.assert_close(y, expected, atol=1e-6, rtol=1e-5)
        ours, theirs = (
            torch.autograd.grad(out.square().sum(), list(weights), retain_graph=True) for out in (y, expected)
        )
        for a, b in zip(ours, theirs):
            torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)  # float32 sums over 20 steps
