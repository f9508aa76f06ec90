"""Recurrent encoders: a GRU or LSTM between the observations and a head."""

from __future__ import annotations

import copy
from typing import Any, List, NamedTuple, Optional, Protocol, Sequence, Tuple

import torch
from torch import Tensor, nn

from rsl_rl.utils.trajectories import HiddenState, ResetMasks, as_states

_WEIGHT_NAMES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
"""torch's names of the fields of LayerWeights, in their order."""


class LayerWeights(NamedTuple):
    """Weights of one layer; the rows of G gates of H units each: r, z, n of a GRU, i, f, g, o of an LSTM."""

    input: Tensor  # [G*H, D]
    hidden: Tensor  # [G*H, H]
    input_bias: Tensor  # [G*H]
    hidden_bias: Tensor  # [G*H]


class MemoryKernel(Protocol):
    """Another implementation of a layer, see ``rsl_rl.acceleration``."""

    def scan(self, x: Tensor, masks: ResetMasks, weights: LayerWeights, *states: Tensor) -> Tensor:
        """Compute what :func:`plain_scan` computes."""
        ...

    def prepare(self, weights: LayerWeights, num_states: int) -> Any:
        """Return weights in the form that :meth:`step` uses; ``num_states`` is 1 for a GRU and 2 for an LSTM."""
        ...

    def step(self, x: Tensor, states: Sequence[Tensor], weights: Any) -> Tuple[Tensor, ...]:
        """Compute what :func:`plain_step` computes, without gradient, with weights of :meth:`prepare`."""
        ...


class Memory(nn.Module):
    """A GRU or LSTM that runs step by step with an internal state, or over whole rollouts from given states.

    The weights are those of a torch layer, ``rnn``, under its names. The state is None, which stands for zeros, until
    the first step after a full ``reset``. Over rollouts with gradients it computes in ``autocast_dtype``, if that is
    set, and returns its input's type.
    """

    autocast_dtype: Optional[torch.dtype] = None
    kernel: Optional[MemoryKernel] = None
    """Faster implementation of the same functions; None for :func:`plain_scan` and :func:`plain_step`."""
    _cached: Optional[List[Any]] = None

    def __init__(self, input_size: int, type: str = "lstm", num_layers: int = 1, hidden_size: int = 256):
        super().__init__()
        kinds = {"gru": nn.GRU, "lstm": nn.LSTM}
        if type.lower() not in kinds:
            raise ValueError(f"unknown memory type '{type}'; allowed: gru, lstm")
        self.rnn = kinds[type.lower()](input_size=input_size, hidden_size=hidden_size, num_layers=num_layers)
        self.hidden_states: HiddenState = None

    def step(self, x: Tensor) -> Tensor:
        """Advance the own state by observations [N, D] and return the output [N, H]."""
        y, self.hidden_states = self.advance(x, self.hidden_states)
        return y

    def step_stateless(self, x: Tensor) -> Tensor:
        """Return the output of :meth:`step` without changing the state."""
        return self.advance(x, self.hidden_states)[0]

    def cache_weights(self) -> None:
        """Use the current weights for steps without gradients until :meth:`clear_cache`."""
        with torch.no_grad():
            self._cached = self._prepared()

    def clear_cache(self) -> None:
        """Stop using cached weights."""
        self._cached = None

    def _layers(self) -> List[LayerWeights]:
        return [self.layer_weights(layer) for layer in range(self.rnn.num_layers)]

    def _prepared(self) -> List[Any]:
        """Return the weights of each layer for steps without gradients."""
        layers, kernel = self._layers(), self.kernel
        return layers if kernel is None else [kernel.prepare(layer, self._num_states) for layer in layers]

    @property
    def _num_states(self) -> int:
        return 1 if isinstance(self.rnn, nn.GRU) else 2

    def advance(self, x: Tensor, state: HiddenState) -> Tuple[Tensor, HiddenState]:
        """Return the output [N, H] for observations [N, D] and a state [L, N, H], and the next state."""
        states = as_states(state) or self.zero_states(len(x))
        if torch.is_grad_enabled() or self.kernel is None:
            step, layers = plain_step, self._layers()
        else:
            step, layers = self.kernel.step, self._prepared() if self._cached is None else self._cached
        after: List[Tuple[Tensor, ...]] = []  # of each layer
        for layer, weights in enumerate(layers):
            after.append(step(x, [s[layer] for s in states], weights))
            x = after[-1][0]
        ends = tuple(parts[0].unsqueeze(0) if len(parts) == 1 else torch.stack(parts) for parts in zip(*after))
        return x, ends[0] if len(ends) == 1 else ends

    def sequence(self, x: Tensor, masks: ResetMasks, state: HiddenState) -> Tensor:
        """Run observations [T, N, D] from the states [L, N, H] before the first; return the outputs [T, N, H]."""
        states = as_states(state) or self.zero_states(x.shape[1])
        dtype = self.autocast_dtype if self.autocast_dtype is not None and torch.is_grad_enabled() else x.dtype
        keep = masks.keep_state.to(dtype)
        masks = ResetMasks(keep, keep * masks.keep_gradient.to(dtype))  # no gradient passes a reset of the state
        scan = plain_scan if self.kernel is None else self.kernel.scan
        y = x.to(dtype)
        for layer, tensors in enumerate(self._layers()):
            weights = LayerWeights(*(weight.to(dtype) for weight in tensors))
            y = scan(y, masks, weights, *(s[layer].to(dtype) for s in states))
        return y.to(x.dtype)

    def layer_weights(self, layer: int) -> LayerWeights:
        """Return the effective weights of one layer, counted from 0."""
        return LayerWeights(*(getattr(self.rnn, f"{name}_l{layer}") for name in _WEIGHT_NAMES))

    def as_layer(self) -> nn.RNNBase:
        """Return a new torch layer with the effective weights."""
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
        return (zeros,) * self._num_states

    def current_state(self, num_envs: int) -> HiddenState:
        """Return the state [L, N, H]; zeros before the first step."""
        return self.zero_states(num_envs) if self.hidden_states is None else self.hidden_states

    def reset(self, dones: Optional[Tensor] = None) -> None:
        """Zero the state of the environments marked in dones [N] or [N, 1]; of all for None.

        The new state is in new tensors; tensors returned before are not changed.
        """
        self.hidden_states = None if dones is None else reset_states(self.hidden_states, dones)


def reset_states(state: HiddenState, dones: Tensor) -> HiddenState:
    """Return a state [L, N, H] with zeros for the environments marked in dones [N] or [N, 1]."""
    if state is None:
        return None
    done = dones.bool().reshape(1, -1, 1)  # masked_fill and not a product, because the state may be NaN
    if isinstance(state, Tensor):
        return state.masked_fill(done, 0.0)
    return tuple(s.masked_fill(done, 0.0) for s in state)


def plain_scan(x: Tensor, masks: ResetMasks, weights: LayerWeights, *states: Tensor) -> Tensor:
    """Run a layer over x [T, N, D] from the states [N, H], (h,) or (h, c), step by step; return its outputs [T, N, H].

    ``masks`` [T, N]: before each step the state is multiplied by ``keep_state``, its gradient by ``keep_gradient``.
    """
    outputs: List[Tensor] = []
    for t in range(len(x)):
        keep, passes = masks.keep_state[t].unsqueeze(1), masks.keep_gradient[t].unsqueeze(1)
        states = tuple(keep * (passes * s + (1.0 - passes) * s.detach()) for s in states)
        states = plain_step(x[t], states, weights)
        outputs.append(states[0])
    return torch.stack(outputs)


def plain_step(x: Tensor, states: Sequence[Tensor], weights: LayerWeights) -> Tuple[Tensor, ...]:
    """Return the states [N, H], (h,) or (h, c), after one step of a layer on x [N, D]."""
    if len(states) == 1:
        return (torch.gru_cell(x, states[0], *weights),)
    return torch.lstm_cell(x, list(states), *weights)
