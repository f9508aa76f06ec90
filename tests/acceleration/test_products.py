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


@pytest.fixture(params=["oneDNN", "torch"])
def choice(request, monkeypatch):
    """Each of the two libraries, whatever the CPU."""
    onednn = request.param == "oneDNN"
    if onednn and not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        pytest.skip("this PyTorch has no oneDNN")
    monkeypatch.setattr(products, "prefers_onednn", lambda: onednn)
    return request.param


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", SIZES)
def test_products_equal_those_in_float64(size, dtype, choice):
    x, weight, bias, grad = draw(size, dtype)
    x64, weight64, bias64, grad64 = (tensor.double() for tensor in (x, weight, bias, grad))
    for product, expected in (
        (products.linear(x, weight, bias), x64 @ weight64.t() + bias64),
        (products.linear(grad, weight.t()), grad64 @ weight64),
        (products.weight_gradient(grad, x), grad64.t() @ x64),
        (products.step_linear(x, products.pack(weight, len(x)), bias), x64 @ weight64.t() + bias64),
        (products.step_linear(grad, products.pack(weight.t(), len(x)), out=torch.empty_like(x)), grad64 @ weight64),
    ):
        assert product.dtype == dtype
        torch.testing.assert_close(product.double(), expected, rtol=1e-5, atol=1e-3)  # sums of up to 2048 terms


@pytest.mark.parametrize("size", SIZES)
def test_onednn_computes_large_products_in_float32_where_it_is_preferred(size, choice, monkeypatch):
    calls = []
    onednn_linear = products.onednn_linear
    monkeypatch.setattr(products, "onednn_linear", lambda *args: calls.append(len(args)) or onednn_linear(*args))
    x, weight, bias, grad = draw(size)
    products.linear(x, weight, bias)
    products.linear(grad, weight.t())
    products.weight_gradient(grad, x)
    assert len(calls) == (3 if size != "small" and choice == "oneDNN" else 0)
    products.linear(x.double(), weight.double(), bias.double())
    assert len(calls) <= 3


def test_products_keep_nan(choice):
    x, weight, bias, grad = draw("wide")
    x[3, 5] = grad[7, 2] = torch.nan
    assert products.linear(x, weight, bias).isnan().any(dim=1).nonzero().tolist() == [[3]]
    assert products.weight_gradient(grad, x).isnan().nonzero().numel() == 2 * (48 + 128 - 1)


@pytest.mark.parametrize(
    ("cpu", "instructions", "library"),
    [
        ("AMD EPYC, cpu family 26, model 2", "x86_64 AVX512", "oneDNN"),
        ("AMD64 Family 26 Model 68 Stepping 0, AuthenticAMD", "AMD64 AVX512", "oneDNN"),
        ("AMD EPYC, cpu family 26, model 2", "x86_64 AVX2", "torch"),
        ("AMD EPYC 9354 32-Core Processor, cpu family 25, model 17", "x86_64 AVX512", "torch"),
        ("AMD EPYC 7763 64-Core Processor, cpu family 25, model 1", "x86_64 AVX2", "torch"),
        ("Intel(R) Xeon(R) Processor @ 2.80GHz, cpu family 6, model 106", "x86_64 AVX512", "torch"),
        ("Intel64 Family 26 Model 1 Stepping 0, GenuineIntel", "AMD64 AVX512", "torch"),
        ("aarch64", "aarch64 DEFAULT", "torch"),
    ],
)
def test_library_depends_on_the_model_of_the_cpu(cpu, instructions, library, monkeypatch):
    monkeypatch.setattr(products, "cpu_name", lambda: cpu)
    monkeypatch.setattr(products, "instruction_set", lambda: instructions)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
    assert products.prefers_onednn.__wrapped__() == (library == "oneDNN")
