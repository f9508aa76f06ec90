"""Matrix products without gradients, by the faster of two libraries: torch's own, which is MKL, or oneDNN.

The choice depends on the model of the CPU and not on a measurement, because the libraries round differently: equal CPUs
get equal weights. MKL uses AVX-512 on Intel's processors only. oneDNN uses it everywhere, but transposes one factor of
a weight's gradient slowly. So oneDNN is faster where its vectors are twice as wide as MKL's. ``python -m
benchmarks.products`` measures both; benchmarks/README.md has results.
"""

from __future__ import annotations

import functools
import re
from typing import Optional

import torch
from torch import Tensor

from rsl_rl.utils.provenance import cpu_name, instruction_set

_LARGE = 1 << 20
"""Multiplications in a product from which on oneDNN is faster. In smaller ones its calls take longer than MKL's."""

_AMD_WITH_WIDE_VECTORS = 26
"""CPU family of AMD from which on AVX-512 computes 512 bits at once; family 25 takes two steps for them."""


@functools.lru_cache(maxsize=None)
def prefers_onednn() -> bool:
    """Return whether oneDNN computes this CPU's products."""
    amd = re.search(r"AMD.*\bfamily (\d+)", cpu_name(), re.IGNORECASE)
    has_onednn = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    return has_onednn and "AVX512" in instruction_set() and amd is not None and int(amd[1]) >= _AMD_WITH_WIDE_VECTORS


def library() -> str:
    """Return the name of the library that computes float32 products on the CPU."""
    if prefers_onednn():
        return "oneDNN"
    return "MKL" if torch.backends.mkl.is_available() else "PyTorch"


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
        if x.device.type == "cpu" and grad.shape[1] > x.shape[1] and not prefers_onednn():
            return (x.t() @ grad).t()  # MKL is faster with few rows too
        return grad.t() @ x
    grad, x = grad.contiguous(), x.contiguous()  # with gaps between rows oneDNN may take a thousand times as long
    if grad.shape[1] <= x.shape[1]:  # oneDNN is faster with few rows
        return onednn_linear(grad.t(), x.t())
    return onednn_linear(x.t(), grad.t()).t()


def step_linear(x: Tensor, weight: Tensor, bias: Optional[Tensor] = None, out: Optional[Tensor] = None) -> Tensor:
    """Return :func:`linear` by the library for large products, whatever the size; the result may be in ``out``.

    The weight may be one of :func:`pack`.
    """
    if uses_onednn(x):
        return onednn_linear(x, weight, bias)
    if bias is None:
        return torch.mm(x, weight.t(), out=out)
    return torch.addmm(bias, x, weight.t(), out=out)


def pack(weight: Tensor, num_rows: int) -> Tensor:
    """Return a weight for repeated use by :func:`step_linear`, on num_rows rows each time."""
    if not uses_onednn(weight):
        return weight
    return torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), num_rows)


def uses_onednn(x: Tensor) -> bool:
    """Return whether oneDNN computes large products of x."""
    return x.device.type == "cpu" and x.dtype == torch.float32 and prefers_onednn()


def onednn_linear(x: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """Return :func:`linear` by oneDNN."""
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
