"""An LSTM layer: single steps without gradients, and a scan over rollouts with an explicit backward pass.

Letters: T steps, K steps of a block, N environments, D inputs, H hidden size.
"""

from __future__ import annotations

import functools
from typing import Any, Container, NamedTuple, Optional, Tuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from rsl_rl.acceleration.products import pack, step_linear, weight_gradient
from rsl_rl.modules.memory import LayerWeights
from rsl_rl.utils.provenance import cpu_name

_aten = torch.ops.aten
_ONE = torch.ones(())
_BLOCK_ROWS = 512
"""Number of samples whose gates fit into a CPU's cache."""


class StackedWeights(NamedTuple):
    """Weights of one LSTM layer, those of input and state concatenated by ``stack_weights``."""

    weight: Tensor  # [4*H, D + H]
    bias: Tensor  # [4*H]


def lstm_step(x: Tensor, h: Tensor, c: Tensor, weights: StackedWeights) -> Tuple[Tensor, Tensor]:
    """Return the states (h, c) [N, H] after one step on inputs [N, D], without gradient."""
    gates = step_linear(torch.cat((x, h), dim=1), *weights)
    i, f, g, o = _activate(gates, out=gates)
    c = torch.mul(f, c).addcmul_(i, g)
    return _tanh(c, out=torch.empty_like(c)).mul_(o), c


def stack_weights(weights: LayerWeights) -> StackedWeights:
    """Concatenate the weights of an LSTM layer for ``lstm_step``."""
    weight = torch.cat((weights.input, weights.hidden), dim=1)
    bias = weights.input_bias + weights.hidden_bias
    if _sigmoid_is_faster(weight):
        size = len(bias) // 4
        for rows in (weight, bias):
            rows[2 * size : 3 * size].mul_(-2.0)  # for tanh(x) = 1 - 2 sigmoid(-2 x), see _activate
    return StackedWeights(weight, bias)


def _sigmoid_is_faster(x: Tensor) -> bool:
    """Return whether tanh(x) is computed as 1 - 2 sigmoid(-2 x).

    Then one sigmoid computes all gates. The formula's error is 2e-7 at most in float32; in bfloat16 it would be too
    large.
    """
    return x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64)


@functools.lru_cache(maxsize=None)
def _tanh_is_fast() -> bool:
    """Return whether torch's tanh, which is MKL's, takes less time than its sigmoid; on AMD's CPUs it takes six times
    as long."""
    return "Intel" in cpu_name()


def _tanh(x: Tensor, out: Tensor) -> Tensor:
    if _tanh_is_fast() or not _sigmoid_is_faster(x):
        return torch.tanh(x, out=out)
    torch.mul(x, -2.0, out=out).sigmoid_()
    return torch.sub(_ONE, out, alpha=2.0, out=out)


def _activate(gates: Tensor, out: Tensor) -> Tuple[Tensor, ...]:
    """Apply the activations of an LSTM to gates [N, 4*H] made with stacked weights; return i, f, g, o in ``out``."""
    i, f, g, o = out.chunk(4, dim=1)
    if _sigmoid_is_faster(gates):
        torch.sigmoid(gates, out=out)
        torch.sub(_ONE, g, alpha=2.0, out=g)
    else:
        size = g.shape[1]
        torch.sigmoid(gates[:, : 2 * size], out=out[:, : 2 * size])
        torch.tanh(gates[:, 2 * size : 3 * size], out=g)
        torch.sigmoid(gates[:, 3 * size :], out=o)
    return i, f, g, o


def _lstm_factors(gates: Tensor, cells: Tensor, squashed: Tensor, kept_gradient: Tensor) -> Tuple[Tensor, Tensor]:
    """Replace gates [K, N, 4*H] by their derivatives.

    Multiplied by the gradient of the new c (of h for o), these are the gradients before activation.
    Return the factors from the gradient of h to that of the new c, and from that of the new c to that of the previous
    c. They overwrite ``cells`` and ``squashed``, [K, N, H], the cell before the step and the tanh of the new cell.
    """
    i, f, g, o = gates.chunk(4, dim=2)
    to_cell = _aten.tanh_backward(o, squashed)
    _aten.sigmoid_backward.grad_input(squashed, o, grad_input=o)
    torch.mul(f, kept_gradient, out=squashed)
    _aten.sigmoid_backward.grad_input(cells, f, grad_input=f)
    _aten.tanh_backward.grad_input(i, g, grad_input=cells)
    _aten.sigmoid_backward.grad_input(g, i, grad_input=i)
    g.copy_(cells)
    return to_cell, squashed


def _steps_below_one(keep: Tensor) -> Container[int]:
    """Return the steps of keep [T, N] with a value below one; on a GPU, which would have to be read, all steps."""
    if keep.device.type != "cpu":
        return range(len(keep))
    return {t for t, ones in enumerate((keep == 1.0).all(dim=1).tolist()) if not ones}


class LSTMScan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, keep_state: Tensor, keep_gradient: Tensor, *tensors: Tensor) -> Tensor:
        w_input, w_hidden, b_input, b_hidden, h, c = tensors
        (num_steps, num_envs, num_inputs), size = x.shape, h.shape[1]
        # One product per step for input and state, whose weights and values are concatenated.
        weight, bias = stack_weights(LayerWeights(w_input, w_hidden, b_input, b_hidden))
        weight = pack(weight, num_envs)
        inputs = x.new_empty(num_steps + 1, num_envs, num_inputs + size)  # the last step writes behind the end
        cells = x.new_empty(num_steps + 1, num_envs, size)
        inputs[:-1, :, :num_inputs] = x
        hidden, before = inputs[..., num_inputs:].unbind(0), cells.unbind(0)
        torch.mul(h, keep_state[0].unsqueeze(1), out=hidden[0])
        torch.mul(c, keep_state[0].unsqueeze(1), out=before[0])
        gates, squashed = (x.new_empty(num_steps, num_envs, n) for n in (4 * size, size))
        columns = (inputs[:-1], gates, squashed, keep_state.roll(-1, 0).unsqueeze(2))
        resets = _steps_below_one(keep_state)
        for t, (row, gate, tanh_c, kept) in enumerate(zip(*(column.unbind(0) for column in columns)), start=1):
            i, f, g, o = _activate(step_linear(row, weight, bias, out=gate), out=gate)
            c = torch.mul(f, before[t - 1], out=before[t]).addcmul_(i, g)
            torch.mul(o, _tanh(c, out=tanh_c), out=hidden[t])
            if t in resets:
                hidden[t].mul_(kept)
                c.mul_(kept)
        ctx.save_for_backward(keep_gradient, w_input, w_hidden, gates, inputs, cells, squashed)
        return gates[..., 3 * size :] * squashed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor) -> Tuple[Optional[Tensor], ...]:  # type: ignore[override]
        keep_gradient, w_input, w_hidden, gates, inputs, cells, squashed = ctx.saved_tensors
        (num_steps, num_envs, size), num_inputs = d_outputs.shape, w_input.shape[1]
        to_hidden = pack(w_hidden.t(), num_envs)
        d_h, d_c = torch.zeros_like(squashed[0]), torch.zeros_like(squashed[0])  # of the state passed to the next step
        into_h, into_c = torch.empty_like(d_h), torch.empty_like(d_h)
        block, cuts = max(1, _BLOCK_ROWS // num_envs), _steps_below_one(keep_gradient)
        t = num_steps
        for end in range(num_steps, 0, -block):
            span = slice(max(0, end - block), end)
            kept_gradient = keep_gradient[span].unsqueeze(2)
            to_cell, to_before = _lstm_factors(gates[span], cells[span], squashed[span], kept_gradient)
            gate = gates[span].unflatten(2, (4, size))
            columns = (d_outputs[span], to_cell, to_before, gates[span], gate[:, :, :3], gate[:, :, 3], kept_gradient)
            for d_output, h_to_c, c_to_c, d_gate, d_ifg, d_o, passed in zip(*(c.unbind(0)[::-1] for c in columns)):
                t -= 1
                torch.add(d_output, d_h, out=into_h)
                torch.addcmul(d_c, into_h, h_to_c, out=into_c)
                d_ifg.mul_(into_c.unsqueeze(1))
                d_o.mul_(into_h)
                torch.mul(into_c, c_to_c, out=d_c)
                d_h = step_linear(d_gate, to_hidden, out=d_h)
                if t in cuts:
                    d_h.mul_(passed)
        d_gates = gates.flatten(0, 1)  # overwritten by the gradients
        d_weight = weight_gradient(d_gates, inputs[:-1].flatten(0, 1))
        d_bias = d_gates.sum(dim=0)
        d_x = None
        if ctx.needs_input_grad[0]:
            d_x = step_linear(d_gates, w_input.t().contiguous()).view(num_steps, num_envs, num_inputs)
        return d_x, None, None, d_weight[:, :num_inputs], d_weight[:, num_inputs:], d_bias, d_bias, d_h, d_c
