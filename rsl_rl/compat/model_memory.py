"""The recurrent state of a network that a client derived from RNNModel.

Letters: T steps, N environments, M trajectories, L layers, H hidden size.
"""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor, nn

from rsl_rl.compat.models import RNNModel
from rsl_rl.utils.trajectories import HiddenState, as_states, trajectory_starts


class ModelMemory:
    """The state of a client's network, with the interface that policies expect of a memory."""

    def __init__(self, network: RNNModel):
        self._network = network

    @property
    def hidden_states(self) -> HiddenState:
        """State [L, N, H]; None for zeros."""
        return self._network.get_hidden_state()

    @hidden_states.setter
    def hidden_states(self, state: HiddenState) -> None:
        self._network.reset(hidden_state=_as_given(state))

    def current_state(self, num_envs: int) -> HiddenState:
        """Return the state [L, N, H]; zeros before the first step."""
        state = self.hidden_states
        return zero_state(self._network.rnn.rnn, num_envs) if state is None else state

    def reset(self, dones: Optional[Tensor] = None) -> None:
        """Zero the state of the environments marked in dones [N] or [N, 1]; of all for None."""
        self._network.reset(None if dones is None else dones.reshape(-1))

    def as_layer(self) -> nn.RNNBase:
        """Return the layer."""
        return self._network.rnn.rnn


def zero_state(layer: nn.RNNBase, num_envs: int) -> HiddenState:
    """Return the state [L, N, H] at the start of an episode."""
    zeros = layer.weight_hh_l0.new_zeros(layer.num_layers, num_envs, layer.hidden_size)  # type: ignore[operator]
    return zeros if isinstance(layer, nn.GRU) else (zeros, zeros)


def trajectory_states(state: HiddenState, dones: Tensor) -> HiddenState:
    """Return the states [L, M, H] before the trajectories of a rollout with dones [T, N].

    ``state`` [L, N, H] is that before the rollout; trajectories that begin after a done start with zeros.
    """
    counts = trajectory_starts(dones).sum(dim=0)  # [N]
    first = counts.cumsum(0) - counts
    result = []
    for part in as_states(state):
        start = part.new_zeros(part.shape[0], int(counts.sum()), part.shape[2])  # sync
        start[:, first] = part
        result.append(start)
    return _as_given(tuple(result))


def _as_given(state: HiddenState) -> HiddenState:
    """Return (h,) as h, as a GRU takes it."""
    parts = as_states(state)
    return None if not parts else parts[0] if len(parts) == 1 else parts


def dones_of(keep_state: Tensor) -> Tensor:
    """Return dones [T, N] bool of a rollout from where its state is kept, 0 or 1; those of the last step are unknown
    and False."""
    dones = torch.zeros_like(keep_state, dtype=torch.bool)
    dones[:-1] = keep_state[1:] == 0
    return dones
