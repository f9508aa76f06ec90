"""A stack of linear layers as one function, with few passes over memory.

torch's own activations make a tensor of their own, keep their argument for the backward pass and are slow on a CPU.
Here they are written over the layer's output, and their gradient is computed from the result, so that nothing but the
result is kept; forward and backward of the whole stack are two calls.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Type

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

_aten = torch.ops.aten


class InPlaceActivation(NamedTuple):
    """A non-linearity written over its argument."""

    apply: Callable[[Tensor], Tensor]  # in place
    backward: Callable[[Tensor, Tensor], Tensor]  # (gradient, written over; the non-linearity's result)


_ZERO = torch.zeros((), device="cpu")


def _elu(y: Tensor) -> Tensor:
    if y.device.type != "cpu":
        return nn.functional.elu_(y)
    # Zero held between y and exp(y) - 1, which but for rounding is larger: three plain passes, faster on a CPU than the
    # one pass of torch's own.
    return torch.clamp(_ZERO, min=y, max=y.exp().sub_(1.0), out=y)


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
    """Run x [B, D] through linear layers with the activation between them; the last layer is linear."""
    if torch.is_grad_enabled():
        return _DenseStack.apply(x, activation, *weights, *biases)
    for y in _layers(x, weights, biases, activation):
        x = y  # one at a time, so that nothing else is kept
    return x


def _layers(
    x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor], activation: InPlaceActivation
) -> Iterator[Tensor]:
    """Yield the output of each layer."""
    for weight, bias in zip(weights[:-1], biases[:-1]):
        x = activation.apply(_linear(x, weight, bias))
        yield x
    yield torch.addmm(biases[-1], x, weights[-1].t())


def _linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    if x.device.type == "cpu":
        return (x @ weight.t()).add_(bias)  # addmm would first copy the bias to every row
    return torch.addmm(bias, x, weight.t())


class _DenseStack(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, activation: InPlaceActivation, *parameters: Tensor) -> Tensor:
        num_layers = len(parameters) // 2
        weights, biases = parameters[:num_layers], parameters[num_layers:]
        *hidden, y = _layers(x, weights, biases, activation)
        ctx.activation = activation
        ctx.save_for_backward(x, *hidden, *weights)
        return y

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
