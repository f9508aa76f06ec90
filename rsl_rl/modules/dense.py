"""A stack of linear layers as one function, with few passes over memory.

torch's own activations make a tensor of their own, keep their argument for the backward pass and are slow on a CPU.
Here they are written over the layer's output, and their gradient is computed from the result, so that nothing but the
result is kept; forward and backward of the whole stack are two calls.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Type

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

_aten = torch.ops.aten

_CACHED_NUMBERS = 1 << 19


class InPlaceActivation(NamedTuple):
    """A non-linearity written over its argument."""

    apply: Callable[[Tensor], Tensor]  # in place
    backward: Callable[[Tensor, Tensor], Tensor]  # (gradient, written over; the non-linearity's result)


def _elu(y: Tensor) -> Tensor:
    if y.device.type != "cpu":
        return nn.functional.elu_(y)
    # max(y, exp(min(y, 0)) - 1): four plain passes, faster on a CPU than the one pass of torch's own.
    negative = y.clamp(max=0.0).exp_().sub_(1.0)
    return torch.maximum(y, negative, out=y)


def _elu_backward(grad: Tensor, result: Tensor) -> Tensor:
    return _aten.elu_backward.grad_input(grad, 1.0, 1.0, 1.0, True, result, grad_input=grad)


def _relu_backward(grad: Tensor, result: Tensor) -> Tensor:
    return _aten.threshold_backward.grad_input(grad, result, 0.0, grad_input=grad)


def _tanh_backward(grad: Tensor, result: Tensor) -> Tensor:
    return _aten.tanh_backward.grad_input(grad, result, grad_input=grad)


IN_PLACE: Dict[Type[nn.Module], InPlaceActivation] = {
    nn.ELU: InPlaceActivation(_elu, _elu_backward),
    nn.ReLU: InPlaceActivation(torch.relu_, _relu_backward),
    nn.Tanh: InPlaceActivation(torch.tanh_, _tanh_backward),
}
"""The activations whose gradient follows from their result."""


def dense_stack(
    x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor], activation: InPlaceActivation
) -> Tensor:
    """Run x [..., D] through linear layers with the activation between them; the last layer is linear."""
    rows = x.reshape(-1, x.shape[-1])
    if torch.is_grad_enabled():
        y = _DenseStack.apply(rows, activation, *weights, *biases)
    else:
        y = torch.cat([_run(block, weights, biases, activation) for block in _blocks(rows, weights)])
    return y.view(*x.shape[:-1], y.shape[-1])


def _run(y: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor], activation: InPlaceActivation) -> Tensor:
    """Return the output of the last layer, keeping nothing else."""
    for weight, bias in zip(weights[:-1], biases[:-1]):
        y = activation.apply(torch.addmm(bias, y, weight.t()))
    return torch.addmm(biases[-1], y, weights[-1].t())


def _blocks(rows: Tensor, weights: Sequence[Tensor]) -> Sequence[Tensor]:
    """Cut rows so that the results of the widest layer stay in a CPU's cache; a GPU takes all at once."""
    if rows.device.type != "cpu":
        return (rows,)
    at_once = max(1, _CACHED_NUMBERS // max(len(weight) for weight in weights))
    return rows.tensor_split(max(1, math.ceil(len(rows) / at_once)))


class _DenseStack(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, activation: InPlaceActivation, *parameters: Tensor) -> Tensor:
        num_layers = len(parameters) // 2
        weights, biases = parameters[:num_layers], parameters[num_layers:]
        inputs = [x]
        for weight, bias in zip(weights[:-1], biases[:-1]):
            inputs.append(activation.apply(torch.addmm(bias, inputs[-1], weight.t())))
        ctx.activation = activation
        ctx.save_for_backward(*inputs, *weights)
        return torch.addmm(biases[-1], inputs[-1], weights[-1].t())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor) -> Tuple[Optional[Tensor], ...]:  # type: ignore[override]
        num_layers = len(ctx.saved_tensors) // 2
        inputs, weights = ctx.saved_tensors[:num_layers], ctx.saved_tensors[num_layers:]
        d_weights: List[Tensor] = []
        d_biases: List[Tensor] = []
        ones = d_outputs.new_ones(len(d_outputs))
        grad, d_x = d_outputs, None
        for i in range(num_layers - 1, -1, -1):
            d_weights.insert(0, grad.t() @ inputs[i])
            d_biases.insert(0, ones @ grad)  # the sum over the rows, which is faster as a product
            if i > 0:
                grad = ctx.activation.backward(grad @ weights[i], inputs[i])
            elif ctx.needs_input_grad[0]:
                d_x = grad @ weights[0]
        return (d_x, None, *d_weights, *d_biases)
