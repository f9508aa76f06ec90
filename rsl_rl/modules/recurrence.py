"""GRU and LSTM layers over rollouts whose episodes end in the middle: the memory is wiped inside the scan.

torch's own layers know no resets, so a rollout has to be cut at its dones into padded trajectories before they can run
over it. Here each step multiplies the memory it inherits by ``keep``, and no step is computed twice or for padding.
Forward and backward are written out, because autograd over such a loop spends its time on bookkeeping: the weights'
gradients are one product over all steps, and activations are replaced in place by their gradients (so a second
backward pass over one forward pass is an error, which torch reports).

Letters: T steps, N environments, D inputs, H hidden size. Weights are laid out as torch.nn.GRU and torch.nn.LSTM lay
them out, and the results are theirs.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Tuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from rsl_rl.utils.trajectories import Flow

_aten = torch.ops.aten


class LayerWeights(NamedTuple):
    """Weights of one layer; the rows of G gates of H units each: r, z, n of a GRU, i, f, g, o of an LSTM."""

    input: Tensor  # [G*H, D]
    hidden: Tensor  # [G*H, H]
    input_bias: Tensor  # [G*H]
    hidden_bias: Tensor  # [G*H]


def gru_scan(x: Tensor, flow: Flow, weights: LayerWeights, h: Tensor) -> Tensor:
    """Run a GRU layer over inputs [T, N, D] from the memory h [N, H]; return its outputs [T, N, H]."""
    return _GRUScan.apply(x, flow.keep, flow.carry, *weights, h)


def lstm_scan(x: Tensor, flow: Flow, weights: LayerWeights, h: Tensor, c: Tensor) -> Tensor:
    """Run an LSTM layer over inputs [T, N, D] from the memory h, c [N, H]; return its outputs [T, N, H]."""
    return _LSTMScan.apply(x, flow.keep, flow.carry, *weights, h, c)


class _LSTMScan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, keep: Tensor, carry: Tensor, *tensors: Tensor) -> Tensor:
        w_input, w_hidden, b_input, b_hidden, h, c = tensors
        (num_steps, num_envs, num_inputs), size = x.shape, h.shape[1]
        # One product a step for input, bias and memory: their weights lie side by side, and so do the inputs.
        weight = torch.cat((w_input, (b_input + b_hidden).unsqueeze(1), w_hidden), dim=1)
        inputs = x.new_empty(num_steps, num_envs, num_inputs + 1 + size)
        inputs[..., :num_inputs] = x
        inputs[..., num_inputs] = 1.0
        gates = x.new_empty(num_steps, num_envs, 4 * size)
        outputs, cells, squashed = (x.new_empty(num_steps, num_envs, size) for _ in range(3))
        cell = torch.empty_like(c)
        for t in range(num_steps):
            kept = keep[t].unsqueeze(1)
            torch.mul(h, kept, out=inputs[t, :, num_inputs + 1 :])
            torch.mul(c, kept, out=cells[t])
            gate = torch.mm(inputs[t], weight.t(), out=gates[t])
            gate[:, : 2 * size].sigmoid_()
            gate[:, 2 * size : 3 * size].tanh_()
            gate[:, 3 * size :].sigmoid_()
            i, f, g, o = gate.chunk(4, dim=1)
            c = torch.mul(f, cells[t], out=cell).addcmul_(i, g)
            torch.tanh(c, out=squashed[t])
            h = torch.mul(o, squashed[t], out=outputs[t])
        ctx.save_for_backward(carry, weight, gates, inputs, cells, squashed)
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor) -> Tuple[Optional[Tensor], ...]:  # type: ignore[override]
        carry, weight, gates, inputs, cells, squashed = ctx.saved_tensors
        (num_steps, num_envs, size), first_h = d_outputs.shape, inputs.shape[2] - d_outputs.shape[2]
        d_h, d_c = torch.zeros_like(squashed[0]), torch.zeros_like(squashed[0])  # of the memory handed to the next step
        into_h, into_c, scratch = (torch.empty_like(d_h) for _ in range(3))
        d_gate = gates.new_empty(num_envs, 4 * size)  # of the gates after their activation
        for t in range(num_steps - 1, -1, -1):
            gate, carried = gates[t], carry[t].unsqueeze(1)
            i, f, g, o = gate.chunk(4, dim=1)
            d_i, d_f, d_g, d_o = d_gate.chunk(4, dim=1)
            torch.add(d_outputs[t], d_h, out=into_h)
            torch.mul(into_h, o, out=scratch)
            _aten.tanh_backward.grad_input(scratch, squashed[t], grad_input=into_c)
            into_c.add_(d_c)
            torch.mul(into_c, g, out=d_i)
            torch.mul(into_c, cells[t], out=d_f)
            torch.mul(into_c, i, out=d_g)
            torch.mul(into_h, squashed[t], out=d_o)
            torch.mul(into_c, f, out=d_c).mul_(carried)
            for part, backward in (
                (slice(0, 2 * size), _aten.sigmoid_backward.grad_input),
                (slice(2 * size, 3 * size), _aten.tanh_backward.grad_input),
                (slice(3 * size, 4 * size), _aten.sigmoid_backward.grad_input),
            ):
                backward(d_gate[:, part], gate[:, part], grad_input=gate[:, part])
            torch.mm(gate, weight[:, first_h:], out=d_h).mul_(carried)
        d_gates = gates.flatten(0, 1)  # by now the gradients
        d_weight = d_gates.t() @ inputs.flatten(0, 1)
        d_bias = d_weight[:, first_h - 1]
        d_x = (d_gates @ weight[:, : first_h - 1]).view(num_steps, num_envs, -1) if ctx.needs_input_grad[0] else None
        return d_x, None, None, d_weight[:, : first_h - 1], d_weight[:, first_h:], d_bias, d_bias, d_h, d_c


class _GRUScan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, keep: Tensor, carry: Tensor, *tensors: Tensor) -> Tensor:
        w_input, w_hidden, b_input, b_hidden, h = tensors
        (num_steps, num_envs, _), size = x.shape, h.shape[1]
        # Gates in the order n, r, z, m, with m the memory's part of n: inputs feed the first three, memory the last
        # three, in the order of its weights.
        gates = x.new_empty(num_steps, num_envs, 4 * size)
        order = torch.arange(3 * size, device=x.device).roll(size)
        bias = torch.cat((b_input[: 2 * size] + b_hidden[: 2 * size], b_input[2 * size :]))[order]
        torch.addmm(bias, x.flatten(0, 1), w_input[order].t(), out=gates.flatten(0, 1)[:, : 3 * size])
        gates[..., 3 * size :] = b_hidden[2 * size :]
        outputs, memories = (x.new_empty(num_steps, num_envs, size) for _ in range(2))
        for t in range(num_steps):
            memory = torch.mul(h, keep[t].unsqueeze(1), out=memories[t])
            gates[t, :, size:].addmm_(memory, w_hidden.t())
            n, r, z, m = gates[t].chunk(4, dim=1)
            gates[t, :, size : 3 * size].sigmoid_()
            n.addcmul_(r, m).tanh_()
            h = torch.lerp(n, memory, z, out=outputs[t])
        ctx.save_for_backward(x, carry, w_input, w_hidden, gates, memories)
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor) -> Tuple[Optional[Tensor], ...]:  # type: ignore[override]
        x, carry, w_input, w_hidden, gates, memories = ctx.saved_tensors
        num_steps, num_envs, size = d_outputs.shape
        d_h = torch.zeros_like(d_outputs[0])  # of the memory handed to the next step
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
            d_h.addmm_(gates[t, :, size:], w_hidden).mul_(carry[t].unsqueeze(1))
        flat = gates.flatten(0, 1)  # by now the gradients
        d_w_hidden = flat[:, size:].t() @ memories.flatten(0, 1)
        natural = torch.arange(3 * size, device=x.device).roll(-size)
        d_nrz = flat[:, : 3 * size]
        d_w_input = (d_nrz.t() @ x.flatten(0, 1))[natural]
        d_bias = flat.sum(dim=0)
        d_b_input, d_b_hidden = d_bias[: 3 * size][natural], d_bias[size:]
        d_x = (d_nrz @ w_input[natural.argsort()]).view_as(x) if ctx.needs_input_grad[0] else None
        return d_x, None, None, d_w_input, d_w_hidden, d_b_input, d_b_hidden, d_h
