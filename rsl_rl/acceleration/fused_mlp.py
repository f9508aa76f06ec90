"""A multi-layer perceptron as one function, with few passes over memory.

torch's activations allocate their result, save their argument for the backward pass and are slow on a CPU. Here they
are computed in place on the layer's output, and their gradient is computed from the result, so that only the result is
saved; forward and backward of all layers are two calls.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Type, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from rsl_rl.acceleration.products import linear, weight_gradient
from rsl_rl.modules.mlp import MLP, Linear

_aten = torch.ops.aten

_CACHED_NUMBERS = 1 << 19
"""Activations of one layer that fit into a CPU's cache."""


_NUMBERS_AT_ONCE = 1 << 17
"""Numbers for several passes in turn that fit into the cache of one CPU core."""


class InPlaceActivation(NamedTuple):
    """A non-linearity computed in place."""

    apply: Callable[[Tensor], Tensor]  # in place
    backward: Callable[[Tensor, Tensor], Tensor]  # (gradient, overwritten; the non-linearity's result)


_ZERO, _ONE = (
    torch.zeros((), device="cpu"),
    torch.ones((), device="cpu"),
)  # a Python number would be made a tensor at each call


def _elu(y: Tensor) -> Tensor:
    if y.device.type != "cpu":
        return nn.functional.elu_(y)
    # max(min(0, exp(y) - 1), y): three simple passes, faster on a CPU than the one pass of torch's own ELU.
    for part in (y,) if y.numel() <= _NUMBERS_AT_ONCE else y.view(-1).split(_NUMBERS_AT_ONCE):
        torch.clamp(_ZERO, min=part, max=part.exp().sub_(_ONE), out=part)
    return y


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
    x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor], activations: Sequence[nn.Module]
) -> Tensor:
    """Run x [B, D] through linear layers with an activation behind each but the last.

    ``weights`` are [outputs, inputs] and ``biases`` [outputs] of each layer.
    """
    kinds = {IN_PLACE.get(type(activation)) for activation in activations}
    in_place = kinds.pop() if len(kinds) == 1 else None
    if in_place is not None:
        return _DenseStack.apply(x, in_place, *weights, *biases)
    for weight, bias, activation in zip(weights, biases, activations):
        x = activation(nn.functional.linear(x, weight, bias))
    return nn.functional.linear(x, weights[-1], biases[-1])


class FusedMLP:
    """A kernel of an :class:`MLP`: gradients by one autograd function, calls without gradients in blocks of rows.

    An MLP whose layers were replaced by other modules is run as an nn.Sequential.
    """

    def __init__(self, autocast_dtype: Optional[torch.dtype] = None):
        self.autocast_dtype = autocast_dtype  # to compute in where gradients are enabled; None for the input's
        self._cached: Optional[FixedStack] = None

    def cache_weights(self, mlp: MLP) -> None:
        self._cached = FixedStack(*_parts(mlp)) if _is_stack(mlp) else None

    def clear_cache(self) -> None:
        self._cached = None

    def __call__(self, mlp: MLP, x: Tensor) -> Tensor:
        learning = torch.is_grad_enabled()
        if self._cached is not None and not learning:
            return self._cached(x)
        if not _is_stack(mlp):
            return nn.Sequential.forward(mlp, x)
        weights, biases, activations = _parts(mlp)
        if not learning:
            return FixedStack(weights, biases, activations)(x)
        rows, dtype = x.reshape(-1, x.shape[-1]), self.autocast_dtype or x.dtype
        if not rows.dtype == weights[0].dtype == dtype:
            rows, *parameters = (tensor.to(dtype) for tensor in (rows, *weights, *biases))
            weights, biases = parameters[: len(weights)], parameters[len(weights) :]
        y = dense_stack(rows, weights, biases, activations)
        return y.to(x.dtype).view(*x.shape[:-1], y.shape[-1])


def _is_stack(mlp: MLP) -> bool:
    """Return whether linear layers and activations alternate, as in a new MLP."""
    layers = list(mlp)
    return len(layers) % 2 == 1 and all(hasattr(layer, "weight_and_bias") for layer in layers[::2])


def _parts(mlp: MLP) -> Tuple[Sequence[Tensor], Sequence[Tensor], Sequence[nn.Module]]:
    """Return the weight and the bias of each layer, and the activations between them."""
    layers = list(mlp)
    weights, biases = zip(*(cast(Linear, linear).weight_and_bias() for linear in layers[::2]))
    return weights, biases, layers[1::2]


class FixedStack:
    """:func:`dense_stack` without gradients for constant weights, which are prepared once.

    On a CPU, rows are computed in blocks whose activations fit into its cache.
    """

    def __init__(self, weights: Sequence[Tensor], biases: Sequence[Tensor], activations: Sequence[nn.Module]):
        in_place = (IN_PLACE.get(type(activation)) for activation in activations)
        applied = (activation if kind is None else kind.apply for activation, kind in zip(activations, in_place))
        *inner, self._last = ((weight.detach(), bias.detach()) for weight, bias in zip(weights, biases))
        self._inner = [(*layer, activate) for layer, activate in zip(inner, applied)]
        self._rows_at_once = max(1, _CACHED_NUMBERS // max(len(weight) for weight in weights))

    def __call__(self, x: Tensor) -> Tensor:
        """Return the outputs [..., outputs] for x [..., D]."""
        if x.dim() != 2:
            y = self(x.reshape(-1, x.shape[-1]))
            return y.view(*x.shape[:-1], y.shape[-1])
        if len(x) <= self._rows_at_once or x.device.type != "cpu":
            return _run(x, self._inner, self._last)
        blocks = x.tensor_split(math.ceil(len(x) / self._rows_at_once))
        return torch.cat([_run(block, self._inner, self._last) for block in blocks])


def _run(
    x: Tensor, inner: Sequence[Tuple[Tensor, Tensor, Callable[[Tensor], Tensor]]], last: Tuple[Tensor, Tensor]
) -> Tensor:
    """Apply layers of a weight [outputs, inputs], a bias and an activation, and the last layer, to x [B, D]."""
    for weight, bias, activate in inner:
        x = activate(linear(x, weight, bias))
    return linear(x, *last)


class _DenseStack(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, activation: InPlaceActivation, *parameters: Tensor) -> Tensor:
        num_layers = len(parameters) // 2
        weights, biases = parameters[:num_layers], parameters[num_layers:]
        y, hidden = x, []
        for weight, bias in zip(weights[:-1], biases[:-1]):
            y = activation.apply(linear(y, weight, bias))
            hidden.append(y)
        ctx.activation = activation
        ctx.save_for_backward(x, *hidden, *weights)
        return linear(y, weights[-1], biases[-1])

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
            d_weights.insert(0, weight_gradient(grad, inputs[i]))
            d_biases.insert(0, ones @ grad)  # the sum over the rows, which is faster as a product
            if i > 0:
                grad = ctx.activation.backward(linear(grad, weights[i].t()), inputs[i])
            elif ctx.needs_input_grad[0]:
                d_x = linear(grad, weights[0].t())
        return (d_x, None, *d_weights, *d_biases)
