"""Matrix products without gradients, by oneDNN where it is faster than torch's own.

On a CPU torch computes float32 products with MKL, which does not use AVX-512 on AMD processors. oneDNN does: on an AMD
EPYC with AVX-512 it takes 0.45 of the time.
"""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor
from torch.nn import functional as F

_HAS_ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")

_LARGE = 1 << 20
"""Multiplications in a product from which on oneDNN is faster. In smaller ones its calls take longer than MKL's."""


def linear(x: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """Return x [B, inputs] times weight [outputs, inputs] transposed, plus bias [outputs]."""
    if uses_onednn(x) and x.numel() * len(weight) >= _LARGE:
        return onednn_linear(x, weight, bias)
    if bias is None:
        return x @ weight.t()
    if x.device.type == "cpu":
        return torch.mm(x, weight.t()).add_(bias)  # addmm would first copy the bias to every row
    return torch.addmm(bias, x, weight.t())


def weight_gradient(grad: Tensor, x: Tensor) -> Tensor:
    """Return grad [B, outputs] transposed times x [B, inputs], the gradient of a weight [outputs, inputs]."""
    if not (uses_onednn(x) and grad.numel() * x.shape[1] >= _LARGE):
        return grad.t() @ x
    grad, x = grad.contiguous(), x.contiguous()  # with gaps between rows oneDNN may take a thousand times as long
    if grad.shape[1] <= x.shape[1]:  # oneDNN is faster with few rows
        return onednn_linear(grad.t(), x.t())
    return onednn_linear(x.t(), grad.t()).t()


def onednn_linear(x: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """Return x [B, inputs] times weight [outputs, inputs] transposed, plus bias [outputs], whatever the size.

    oneDNN computes it if :func:`uses_onednn` holds for x. The weight may be one of :func:`pack`.
    """
    if uses_onednn(x):
        return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return F.linear(x, weight, bias)


def pack(weight: Tensor, num_rows: int) -> Tensor:
    """Return a weight for repeated use by :func:`onednn_linear`, on num_rows rows each time."""
    return torch.ops.mkldnn._reorder_linear_weight(weight, num_rows) if uses_onednn(weight) else weight


def uses_onednn(x: Tensor) -> bool:
    return _HAS_ONEDNN and x.device.type == "cpu" and x.dtype == torch.float32
