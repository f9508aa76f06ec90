"""A recurrent memory that looks at observations before a network does."""

from __future__ import annotations

import copy
from typing import List, Optional, Tuple

import torch
from torch import Tensor, nn

from rsl_rl.modules.recurrence import LayerWeights, gru_scan, lstm_scan
from rsl_rl.utils.trajectories import Flow, HiddenState, as_states, unpad_trajectories

_WEIGHT_NAMES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
"""Torch's names of what LayerWeights holds, in its order."""


class Memory(nn.Module):
    """A GRU or LSTM with two ways of use: step by step with a state of its own, and over whole rollouts from given
    states.

    The weights are those of a torch layer, ``rnn``, under its names. A memory that nobody has advanced since the last
    full ``reset`` has the state None, which stands for zeros. Over rollouts with gradients it computes in
    ``learning_dtype``, if that is set, and returns its input's type.
    """

    learning_dtype: Optional[torch.dtype] = None
    _held: Optional[List[LayerWeights]] = None

    def __init__(self, input_size: int, type: str = "lstm", num_layers: int = 1, hidden_size: int = 256):
        super().__init__()
        kinds = {"gru": nn.GRU, "lstm": nn.LSTM}
        if type.lower() not in kinds:
            raise ValueError(f"unknown memory type '{type}'; allowed: gru, lstm")
        self.rnn = kinds[type.lower()](input_size=input_size, hidden_size=hidden_size, num_layers=num_layers)
        self.hidden_states: HiddenState = None

    def forward(self, input: Tensor, masks: Optional[Tensor] = None, hidden_states: HiddenState = None) -> Tensor:
        """Step all environments on [N, D], or, with masks [T, M], run padded trajectories [T, M, D] from their first
        states [L, M, H] and unpad: [T, N, H]; see ``split_and_pad_trajectories``."""
        if masks is None:
            return self.step(input)
        outputs = self.sequence(input, Flow.unbroken(masks.shape, masks.device), hidden_states)
        return unpad_trajectories(outputs, masks)

    def step(self, x: Tensor) -> Tensor:
        """Advance the own state by observations [N, D] and return the output [N, H]."""
        y, self.hidden_states = self._step(x)
        return y

    def peek(self, x: Tensor) -> Tensor:
        """Return what :meth:`step` would, and leave the state as it is."""
        return self._step(x)[0]

    def hold(self) -> None:
        """Without gradients, step with the weights as they are now until ``release``; they are prepared once."""
        self._held = [LayerWeights(*(weight.detach() for weight in layer)) for layer in self._layers()]

    def release(self) -> None:
        """Step with the weights as they are at each call."""
        self._held = None

    def _layers(self) -> List[LayerWeights]:
        return [self.layer_weights(layer) for layer in range(self.rnn.num_layers)]

    def _step(self, x: Tensor) -> Tuple[Tensor, HiddenState]:
        states = as_states(self.hidden_states) or self.zero_states(len(x))
        layers = self._layers() if self._held is None or torch.is_grad_enabled() else self._held
        after: List[Tuple[Tensor, ...]] = []  # of each layer
        for layer, weights in enumerate(layers):
            before = [s[layer] for s in states]
            if len(before) == 1:
                after.append((torch.gru_cell(x, before[0], *weights),))
            else:
                after.append(torch.lstm_cell(x, before, *weights))
            x = after[-1][0]
        ends = tuple(parts[0].unsqueeze(0) if len(parts) == 1 else torch.stack(parts) for parts in zip(*after))
        return x, ends[0] if len(ends) == 1 else ends

    def sequence(self, x: Tensor, flow: Flow, state: HiddenState) -> Tensor:
        """Run observations [T, N, D] from the states [L, N, H] before the first; return the outputs [T, N, H]."""
        states = as_states(state) or self.zero_states(x.shape[1])
        dtype = self.learning_dtype if self.learning_dtype is not None and torch.is_grad_enabled() else x.dtype
        keep = flow.keep.to(dtype)
        flow = Flow(keep, keep * flow.carry.to(dtype))  # what is wiped carries no gradient either
        scan = gru_scan if len(states) == 1 else lstm_scan
        y = x.to(dtype)
        for layer, tensors in enumerate(self._layers()):
            weights = LayerWeights(*(weight.to(dtype) for weight in tensors))
            y = scan(y, flow, weights, *(s[layer].to(dtype) for s in states))
        return y.to(x.dtype)

    def layer_weights(self, layer: int) -> LayerWeights:
        """Return the weights of one layer, counted from 0."""
        return LayerWeights(*(getattr(self.rnn, f"{name}_l{layer}") for name in _WEIGHT_NAMES))

    def as_layer(self) -> nn.RNNBase:
        """Return a torch layer of its own with the weights in use."""
        layer = copy.deepcopy(self.rnn)
        with torch.no_grad():
            for i, weights in enumerate(self._layers()):
                for name, weight in zip(_WEIGHT_NAMES, weights):
                    getattr(layer, f"{name}_l{i}").copy_(weight)
        return layer

    def zero_states(self, num_envs: int) -> Tuple[Tensor, ...]:
        """Return the state at the start of an episode, zeros [L, N, H]: (h,) of a GRU, (h, c) of an LSTM."""
        shape = (self.rnn.num_layers, num_envs, self.rnn.hidden_size)
        zeros = self.rnn.weight_hh_l0.new_zeros(shape)
        return (zeros,) if isinstance(self.rnn, nn.GRU) else (zeros, zeros)

    def reset(self, dones: Optional[Tensor] = None) -> None:
        """Zero the state of the environments marked in dones [N] or [N, 1]; of all for None.

        The state is then in new tensors: those handed out before keep what they held.
        """
        if dones is None:
            self.hidden_states = None
        elif self.hidden_states is not None:
            done = dones.bool().reshape(1, -1, 1)  # written over, not multiplied: it may have become NaN
            state = self.hidden_states
            if isinstance(state, Tensor):
                self.hidden_states = state.masked_fill(done, 0.0)
            else:
                self.hidden_states = tuple(s.masked_fill(done, 0.0) for s in state)
