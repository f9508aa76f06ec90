import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from rsl_rl.acceleration.rnn_scan import FusedRNN
from rsl_rl.modules.memory import Memory
from rsl_rl.utils.trajectories import (
    ResetMasks,
    as_states,
    split_and_pad_trajectories,
    trajectory_starts,
    unpad_trajectories,
)

T, N, D, H, L = 4, 2, 3, 5, 2
KERNELS = {"plain": None, "fused": FusedRNN()}
PATTERNS = {
    "none": [[0, 0], [0, 0], [0, 0], [0, 0]],
    "every step": [[1, 1], [1, 1], [1, 1], [1, 1]],
    "first step": [[1, 1], [0, 0], [0, 0], [0, 0]],
    "last step": [[0, 0], [0, 0], [0, 0], [1, 1]],
    "none spans the rollout": [[0, 1], [1, 0], [0, 0], [0, 1]],
}


def make(kind, scan="plain", dtype=torch.float32):
    """A memory with a past, and the states of that past."""
    memory = Memory(D, kind, num_layers=L, hidden_size=H).to(dtype)
    memory.kernel = KERNELS[scan]
    with torch.no_grad():
        memory.step(torch.randn(N, D, dtype=dtype))
    return memory, as_states(memory.hidden_states)


def stepped(memory, x, dones, states):
    """The outputs of torch's cells, one environment, step and layer at a time."""
    cell = torch.gru_cell if memory.rnn.mode == "GRU" else torch.lstm_cell
    rows = []
    for env in range(x.shape[1]):
        state, outputs = [s[:, env : env + 1] for s in states], []
        for t in range(len(x)):
            y, after = x[t, env : env + 1], []
            for layer in range(L):
                before = [s[layer] for s in state]
                new = cell(y, before[0] if len(before) == 1 else before, *memory.layer_weights(layer))
                after.append(new if isinstance(new, tuple) else (new,))
                y = after[-1][0]
            outputs.append(y[0])
            state = [torch.stack(parts) * (0.0 if dones[t, env] else 1.0) for parts in zip(*after)]
        rows.append(torch.stack(outputs))
    return torch.stack(rows, dim=1)


def assert_scan_and_padding_equal_steps(kind, scan, dones):
    torch.manual_seed(0)
    memory, states = make(kind, scan, torch.float64)
    states = tuple(s.requires_grad_() for s in states)
    x, push = torch.randn(T, N, D, dtype=torch.float64).requires_grad_(), torch.randn(T, N, H, dtype=torch.float64)
    expected = stepped(memory, x, dones, states)
    inputs = [x, *states, *memory.parameters()]
    expected_grads = torch.autograd.grad(expected, inputs, push)
    scanned = memory.sequence(x, ResetMasks.of_dones(dones), states)
    torch.testing.assert_close(scanned, expected)
    for ours, theirs in zip(torch.autograd.grad(scanned, inputs, push), expected_grads):
        torch.testing.assert_close(ours, theirs)

    padded, mask = split_and_pad_trajectories(x, dones)
    starts = trajectory_starts(dones).t()  # each trajectory's first state: the environment's at t = 0, else zeros
    at_zero = torch.zeros_like(starts)
    at_zero[:, 0] = True
    first = [s.new_zeros(L, padded.shape[1], H) for s in states]
    for place, s in zip(first, states):
        place[:, at_zero[starts]] = s
    through_padding = unpad_trajectories(memory.sequence(padded, ResetMasks.none(mask.shape), tuple(first)), mask)
    torch.testing.assert_close(through_padding, expected)
    for ours, theirs in zip(torch.autograd.grad(through_padding, inputs, push), expected_grads):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("kind", ["gru", "lstm"])
@pytest.mark.parametrize("scan", KERNELS)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_memory_sequence_and_padded_trajectories_equal_steps_with_resets(kind, scan, pattern):
    assert_scan_and_padding_equal_steps(kind, scan, torch.tensor(PATTERNS[pattern]).bool())


@given(
    st.sampled_from(["gru", "lstm"]),
    st.sampled_from(list(KERNELS)),
    st.lists(st.lists(st.booleans(), min_size=N, max_size=N), min_size=T, max_size=T),
)
@example("lstm", "fused", [[True, True]] * T)
def test_memory_sequence_with_any_dones_equals_steps_with_resets(kind, scan, dones):
    assert_scan_and_padding_equal_steps(kind, scan, torch.tensor(dones))


@pytest.mark.parametrize("kind", ["gru", "lstm"])
@pytest.mark.parametrize("scan", KERNELS)
def test_memory_steps_equal_a_sequence_and_so_do_their_gradients(kind, scan):
    memory, states = make(kind, scan)
    x, dones = torch.randn(T, N, D), torch.tensor(PATTERNS["none spans the rollout"]).bool()
    outputs = []
    for t in range(T):
        outputs.append(memory.step(x[t]))
        memory.reset(dones[t])
    sequence = memory.sequence(x, ResetMasks.of_dones(dones), states)
    torch.testing.assert_close(torch.stack(outputs), sequence)
    gradients = (
        torch.autograd.grad(y.square().sum(), list(memory.parameters())) for y in (torch.stack(outputs), sequence)
    )
    for ours, theirs in zip(*gradients):
        torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("kind", ["gru", "lstm"])
@pytest.mark.parametrize("scan", KERNELS)
def test_memory_sequence_without_resets_equals_the_torch_layer(kind, scan):
    memory, states = make(kind, scan)
    x = torch.randn(T, N, D)
    expected = memory.rnn(x, states if kind == "lstm" else states[0])[0]
    torch.testing.assert_close(memory.sequence(x, ResetMasks.none((T, N)), states), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", ["gru", "lstm"])
@pytest.mark.parametrize("scan", KERNELS)
def test_memory_sequence_with_a_gradient_cut_keeps_outputs_and_cuts_gradients(kind, scan):
    memory, states = make(kind, scan)
    x = torch.randn(T, N, D).requires_grad_()
    masks = ResetMasks.none((T, N))
    keep_gradient = masks.keep_gradient.clone()
    keep_gradient[2, 0] = 0.0
    y = memory.sequence(x, ResetMasks(masks.keep_state, keep_gradient), states)
    assert torch.equal(y, memory.sequence(x, masks, states))
    (grad,) = torch.autograd.grad(y[3].sum(), x)
    assert (grad[:2, 0] == 0).all() and (grad[2:, 0] != 0).all() and (grad[:, 1] != 0).all()


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_fused_scan_second_backward_pass_raises(kind):
    memory, states = make(kind, "fused")
    y = memory.sequence(torch.randn(T, N, D), ResetMasks.none((T, N)), states).sum()
    y.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_step_stateless_and_sequence_leave_the_state_unchanged():
    memory, _ = make("lstm")
    before = [s.clone() for s in memory.hidden_states]
    output = memory.step_stateless(torch.ones(N, D))
    memory.sequence(torch.randn(T, N, D), ResetMasks.none((T, N)), None)
    assert all(torch.equal(a, b) for a, b in zip(memory.hidden_states, before))
    assert torch.equal(memory.step(torch.ones(N, D)), output)
    assert not torch.equal(memory.hidden_states[0], before[0])


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_memory_reset_zeroes_the_states_of_marked_environments(kind):
    memory, before = make(kind)
    memory.reset(torch.tensor([[True], [False]]))
    for s, old in zip(as_states(memory.hidden_states), before):
        assert (s[:, 0] == 0).all() and torch.equal(s[:, 1], old[:, 1])
    blown_up = tuple(torch.full_like(s, float("nan")) for s in before)  # as a robot may be
    memory.hidden_states = blown_up if kind == "lstm" else blown_up[0]
    memory.reset(torch.tensor([1, 0]))
    assert all((s[:, 0] == 0).all() and s[:, 1].isnan().all() for s in as_states(memory.hidden_states))
    memory.reset()
    assert memory.hidden_states is None


@pytest.mark.parametrize("kind", ["gru", "lstm"])
@pytest.mark.parametrize("scan", KERNELS)
def test_memory_sequence_with_a_reset_state_passes_no_gradient(kind, scan):
    memory, states = make(kind, scan)
    states = tuple(s.requires_grad_() for s in states)
    y = memory.sequence(torch.randn(1, N, D), ResetMasks(torch.zeros(1, N), torch.ones(1, N)), states)
    assert all((g == 0).all() for g in torch.autograd.grad(y.sum(), states))


def test_memory_with_an_unknown_type_raises():
    with pytest.raises(ValueError, match="'rnn'; allowed: gru, lstm"):
        Memory(3, "rnn")
