"""A recurrent memory that looks at observations before a network does."""

from __future__ import annotations

from typing import Optional

from torch import Tensor, nn

from rsl_rl.utils.trajectories import Cut, HiddenState, unpad, unpad_trajectories


class Memory(nn.Module):
    """A GRU or LSTM with two ways of use: step by step with a state of its own, and over whole trajectories from given
    states."""

    def __init__(self, input_size: int, type: str = "lstm", num_layers: int = 1, hidden_size: int = 256):
        super().__init__()
        kinds = {"gru": nn.GRU, "lstm": nn.LSTM}
        if type.lower() not in kinds:
            raise ValueError(f"unknown memory type '{type}'; allowed: gru, lstm")
        self.rnn = kinds[type.lower()](input_size=input_size, hidden_size=hidden_size, num_layers=num_layers)
        self.hidden_states: HiddenState = None

    def forward(self, input: Tensor, masks: Optional[Tensor] = None, hidden_states: HiddenState = None) -> Tensor:
        """Step all environments on [N, D], or, with masks [T, M], run padded trajectories [T, M, D] and unpad: [T, N,
        H]."""
        if masks is None:
            return self.step(input)
        return unpad_trajectories(self.rnn(input, _for_rnn(hidden_states))[0], masks)

    def step(self, x: Tensor) -> Tensor:
        """Advance the own state by observations [N, D] and return the output [N, H]."""
        y, self.hidden_states = self.rnn(x.unsqueeze(0), self.hidden_states)
        return y.squeeze(0)

    def peek(self, x: Tensor) -> Tensor:
        """Return what :meth:`step` would, and leave the state as it is."""
        return self.rnn(x.unsqueeze(0), self.hidden_states)[0].squeeze(0)

    def sequence(self, x: Tensor, cut: Cut, state: HiddenState) -> Tensor:
        """Run padded trajectories [T, M, D] from their first states [L, M, H]; return the outputs of the rollout [T, N,
        H]."""
        return unpad(self.rnn(x, _for_rnn(state))[0], cut)

    def reset(self, dones: Optional[Tensor] = None) -> None:
        """Zero the state of the environments marked in dones [N] or [N, 1]; of all for None."""
        if dones is None:
            self.hidden_states = None
        elif self.hidden_states is not None:
            keep = 1.0 - dones.reshape(1, -1, 1).to(self.rnn.weight_hh_l0.dtype)
            state = self.hidden_states
            self.hidden_states = state * keep if isinstance(state, Tensor) else tuple(s * keep for s in state)


def _for_rnn(state: HiddenState) -> HiddenState:
    """Turn a stored memory into what torch's layers take: a tensor for GRU, a pair for LSTM, None for zeros."""
    if isinstance(state, tuple):
        return None if len(state) == 0 else state[0] if len(state) == 1 else state
    return state
