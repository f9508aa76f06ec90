import pytest
import torch

from rsl_rl.modules import Memory
from rsl_rl.utils import split_and_pad_trajectories
from rsl_rl.utils.trajectories import cut_at_dones, initial_states, pad

PATTERNS = {
    "none": [[0, 0], [0, 0], [0, 0], [0, 0]],
    "every step": [[1, 1], [1, 1], [1, 1], [1, 1]],
    "first step": [[1, 1], [0, 0], [0, 0], [0, 0]],
    "last step": [[0, 0], [0, 0], [0, 0], [1, 1]],
    "none spans the rollout": [[0, 1], [1, 0], [0, 0], [0, 1]],
}


@pytest.mark.parametrize("kind", ["gru", "lstm"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_sequences_equal_steps_with_resets_in_outputs_and_gradients(kind, pattern):
    dones = torch.tensor(PATTERNS[pattern]).bool()
    memory = Memory(3, kind, num_layers=2, hidden_size=4)
    x = torch.randn(4, 2, 3)
    memory.step(torch.randn(2, 3))  # a past before the rollout
    state = memory.hidden_states if isinstance(memory.hidden_states, tuple) else (memory.hidden_states,)
    state = tuple(s.detach() for s in state)
    memory.hidden_states = state if kind == "lstm" else state[0]

    outputs = []
    for t in range(4):
        outputs.append(memory.step(x[t]))
        memory.reset(dones[t])
    stepped = torch.stack(outputs)
    stepped_grad = torch.autograd.grad(stepped.square().sum(), memory.rnn.weight_ih_l0)[0]

    cut = cut_at_dones(dones)
    sequence = memory.sequence(pad(x, cut), cut, tuple(initial_states(s, cut) for s in state))
    sequence_grad = torch.autograd.grad(sequence.square().sum(), memory.rnn.weight_ih_l0)[0]
    torch.testing.assert_close(sequence, stepped, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(sequence_grad, stepped_grad, atol=1e-5, rtol=1e-5)


def test_the_mask_way_gives_the_same():
    dones = torch.tensor(PATTERNS["none spans the rollout"]).bool()
    memory, x = Memory(3, "gru", hidden_size=4), torch.randn(4, 2, 3)
    padded, mask = split_and_pad_trajectories(x, dones)
    cut = cut_at_dones(dones)
    assert torch.equal(memory(padded, mask, None), memory.sequence(pad(x, cut), cut, ()))
    assert memory.hidden_states is None  # replaying moves no state
    assert memory(x[0]).shape == (2, 4) and memory.hidden_states is not None


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="'rnn'; allowed: gru, lstm"):
        Memory(3, "rnn")
