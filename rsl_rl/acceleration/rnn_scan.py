"""GRU and LSTM layers over rollouts whose episodes end in the middle: the state is reset inside the scan.

torch's layers have no resets, so a rollout must be split at its dones into padded trajectories for them. Here each step
multiplies the state by ``ResetMasks.keep_state``, without padding. Forward and backward pass are explicit, because
autograd over such a loop is slow: the weights' gradients are one product over all steps, and activations are
overwritten by their gradients (so a second backward pass is an error, which torch reports).

Letters: T steps, N environments, D inputs, H hidden size. Weights have the layout of torch.nn.GRU and torch.nn.LSTM,
and the results are the same.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from rsl_rl.acceleration.lstm_scan import LSTMScan, StackedWeights, lstm_step, stack_weights
from rsl_rl.acceleration.products import linear, weight_gradient
from rsl_rl.modules.memory import LayerWeights, plain_step
from rsl_rl.utils.trajectories import ResetMasks

_aten = torch.ops.aten


class FusedRNN:
    """A kernel of a :class:`Memory`: scans with an explicit backward pass, and LSTM steps with stacked weights."""

    def scan(self, x: Tensor, masks: ResetMasks, weights: LayerWeights, *states: Tensor) -> Tensor:
        """Compute what ``modules.memory.plain_scan`` computes."""
        return fused_scan(x, masks, weights, *states)

    def prepare(self, weights: LayerWeights, num_states: int) -> Union[LayerWeights, StackedWeights]:
        """Return weights as :meth:`step` uses them; those of an LSTM on a CPU are stacked."""
        if num_states == 1 or weights.hidden.device.type != "cpu":
            return LayerWeights(*(weight.detach() for weight in weights))
        return stack_weights(weights)

    def step(
        self, x: Tensor, states: Sequence[Tensor], weights: Union[LayerWeights, StackedWeights]
    ) -> Tuple[Tensor, ...]:
        """Compute what ``modules.memory.plain_step`` computes, without gradient."""
        if isinstance(weights, StackedWeights):
            return lstm_step(x, states[0], states[1], weights)
        return plain_step(x, states, weights)


def fused_scan(x: Tensor, masks: ResetMasks, weights: LayerWeights, *states: Tensor) -> Tensor:
    """Compute what ``modules.memory.plain_scan`` computes: a GRU layer for (h,), an LSTM layer for (h, c)."""
    scan = _GRUScan if len(states) == 1 else LSTMScan
    return scan.apply(x, masks.keep_state, masks.keep_gradient, *weights, *states)


class _GRUScan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, keep_state: Tensor, keep_gradient: Tensor, *tensors: Tensor) -> Tensor:
        w_input, w_hidden, b_input, b_hidden, h = tensors
        (num_steps, num_envs, _), size = x.shape, h.shape[1]
        # Gates in the order n, r, z, m, where m is the part of n from the state: the first three depend on the inputs,
        # the last three on the state, in the order of its weights.
        gates = x.new_empty(num_steps, num_envs, 4 * size)
        order = torch.arange(3 * size, device=x.device).roll(size)
        bias = torch.cat((b_input[: 2 * size] + b_hidden[: 2 * size], b_input[2 * size :]))[order]
        torch.addmm(bias, x.flatten(0, 1), w_input[order].t(), out=gates.flatten(0, 1)[:, : 3 * size])
        gates[..., 3 * size :] = b_hidden[2 * size :]
        outputs, memories = (x.new_empty(num_steps, num_envs, size) for _ in range(2))
        for t in range(num_steps):
            memory = torch.mul(h, keep_state[t].unsqueeze(1), out=memories[t])
            gates[t, :, size:].addmm_(memory, w_hidden.t())
            n, r, z, m = gates[t].chunk(4, dim=1)
            gates[t, :, size : 3 * size].sigmoid_()
            n.addcmul_(r, m).tanh_()
            h = torch.lerp(n, memory, z, out=outputs[t])
        ctx.save_for_backward(x, keep_gradient, w_input, w_hidden, gates, memories)
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor) -> Tuple[Optional[Tensor], ...]:  # type: ignore[override]
        x, keep_gradient, w_input, w_hidden, gates, memories = ctx.saved_tensors
        num_steps, num_envs, size = d_outputs.shape
        d_h = torch.zeros_like(d_outputs[0])  # of the state after the step
        into_h, scratch = torch.empty_like(d_h), torch.empty_like(d_h)
        d_rz = gates.new_empty(num_envs, 2 * size)  # of the gates after their activation
        for t in range(num_steps - 1, -1, -1):
            n, r, z, m = gates[t].chunk(4, dim=1)
            rz = gates[t, :, size : 3 * size]
            torch.add(d_outputs[t], d_h, out=into_h)
            torch.sub(memories[t], n, out=d_rz[:, size:]).mul_(into_h)
            torch.mul(into_h, z, out=d_h)
            torch.sub(into_h, d_h, out=scratch)
            _aten.tanh_backward.grad_input(scratch, n, grad_input=n)
            torch.mul(n, m, out=d_rz[:, :size])
            torch.mul(n, r, out=m)
            _aten.sigmoid_backward.grad_input(d_rz, rz, grad_input=rz)
            d_h.addmm_(gates[t, :, size:], w_hidden).mul_(keep_gradient[t].unsqueeze(1))
        flat = gates.flatten(0, 1)  # now contains the gradients
        d_w_hidden = weight_gradient(flat[:, size:], memories.flatten(0, 1))
        natural = torch.arange(3 * size, device=x.device).roll(-size)
        d_nrz = flat[:, : 3 * size]
        d_w_input = weight_gradient(d_nrz, x.flatten(0, 1))[natural]
        d_bias = flat.sum(dim=0)
        d_b_input, d_b_hidden = d_bias[: 3 * size][natural], d_bias[size:]
        d_x = linear(d_nrz, w_input[natural.argsort()].t()).view_as(x) if ctx.needs_input_grad[0] else None
        return d_x, None, None, d_w_input, d_w_hidden, d_b_input, d_b_hidden, d_h
