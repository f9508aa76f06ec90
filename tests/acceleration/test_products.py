"""Matrix products without gradients, against products in float64."""

import pytest
import torch

from rsl_rl.acceleration import products

SIZES = {"small": (33, 7, 5), "wide": (2048, 48, 128), "narrow": (2048, 128, 48)}  # rows, inputs, outputs


def draw(size, dtype=torch.float32):
    rows, inputs, outputs = SIZES[size]
    generator = torch.Generator().manual_seed(1)
    shapes = ((rows, inputs), (outputs, inputs), (outputs,), (rows, outputs))
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", SIZES)
def test_products_equal_those_in_float64(size, dtype):
    x, weight, bias, grad = draw(size, dtype)
    x64, weight64, bias64, grad64 = (tensor.double() for tensor in (x, weight, bias, grad))
    for product, expected in (
        (products.linear(x, weight, bias), x64 @ weight64.t() + bias64),
        (products.linear(grad, weight.t()), grad64 @ weight64),
        (products.weight_gradient(grad, x), grad64.t() @ x64),
        (products.onednn_linear(x, products.pack(weight, len(x)), bias), x64 @ weight64.t() + bias64),
    ):
        assert product.dtype == dtype
        torch.testing.assert_close(product.double(), expected, rtol=1e-5, atol=1e-3)  # sums of up to 2048 terms


@pytest.mark.parametrize("size", SIZES)
def test_onednn_computes_large_products_in_float32(size, monkeypatch):
    calls = []
    onednn_linear = products.onednn_linear
    monkeypatch.setattr(products, "onednn_linear", lambda *args: calls.append(len(args)) or onednn_linear(*args))
    x, weight, bias, grad = draw(size)
    products.linear(x, weight, bias)
    products.linear(grad, weight.t())
    products.weight_gradient(grad, x)
    assert len(calls) == (0 if size == "small" or not products.uses_onednn(x) else 3)
    products.linear(x.double(), weight.double(), bias.double())
    assert len(calls) <= 3


def test_products_keep_nan():
    x, weight, bias, grad = draw("wide")
    x[3, 5] = grad[7, 2] = torch.nan
    assert products.linear(x, weight, bias).isnan().any(dim=1).nonzero().tolist() == [[3]]
    assert products.weight_gradient(grad, x).isnan().nonzero().numel() == 2 * (48 + 128 - 1)
