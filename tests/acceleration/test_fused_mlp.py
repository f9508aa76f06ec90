"""MLPs with the fused kernel, against nn.Sequential."""

import math

import pytest
import torch
from torch import nn

from rsl_rl.acceleration import fused_mlp
from rsl_rl.acceleration.fused_mlp import IN_PLACE, FusedMLP
from rsl_rl.modules.mlp import mlp as plain_mlp
from rsl_rl.modules.symmetry import symmetric_mlp

IDENTITY = ((0, 1, 2), (1.0, 1.0, -1.0))


def fused(net):
    net.kernel = FusedMLP()
    return net


def mlp(*args):
    return fused(plain_mlp(*args))


@pytest.mark.parametrize("activation", ["elu", "relu", "tanh", "silu"])
@pytest.mark.parametrize("rows", [1, 7, 2500])
@pytest.mark.parametrize("symmetric", [False, True])
def test_fused_mlp_outputs_and_gradients_equal_plain_layers(activation, rows, symmetric):
    net = fused(symmetric_mlp(IDENTITY, (8, 6), IDENTITY, activation)) if symmetric else mlp(3, (8, 6), 3, activation)
    net.double()
    plain = net.plain()
    x = (3 * torch.randn(rows, 3, dtype=torch.float64)).requires_grad_()
    push = torch.randn(rows, 3, dtype=torch.float64)
    y, expected = net(x), plain(x)
    torch.testing.assert_close(y, expected)
    ours = torch.autograd.grad(y, [x, *net.parameters()], push)
    theirs = torch.autograd.grad(expected, [x, *plain.parameters()], push)
    for a, b in zip(ours, theirs):
        torch.testing.assert_close(a, b)
    with torch.no_grad():
        torch.testing.assert_close(net(x), expected)


def test_fused_mlp_with_leading_dimensions_and_expanded_gradient_equals_plain_layers():
    net = mlp(3, (8,), 2, "elu")
    x = torch.randn(4, 5, 3)
    assert net(x).shape == (4, 5, 2)
    net(x).mean().backward()  # its gradient is one number, expanded
    expected = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    plain = net.plain()
    plain(x).mean().backward()
    for a, b in zip(expected, plain.parameters()):
        torch.testing.assert_close(a, b.grad)


def test_fused_mlp_in_blocks_equals_plain_layers(monkeypatch):
    monkeypatch.setattr(fused_mlp, "_CACHED_NUMBERS", 64)
    net, x = mlp(3, (8, 6), 2, "elu"), torch.randn(21, 3)  # blocks of 8 rows at most
    with torch.no_grad():
        torch.testing.assert_close(net(x), net.plain()(x))


def test_elu_of_a_large_tensor_has_the_bits_of_a_small_one(monkeypatch):
    x = torch.randn(50, 7)
    whole = IN_PLACE[nn.ELU].apply(x.clone())
    monkeypatch.setattr(fused_mlp, "_NUMBERS_AT_ONCE", 64)  # parts that cut rows
    assert torch.equal(IN_PLACE[nn.ELU].apply(x.clone()), whole)


def test_fused_mlp_with_float64_inputs_computes_in_float64():
    net, x = mlp(3, (8,), 2, "elu"), torch.randn(5, 3, dtype=torch.float64)
    torch.testing.assert_close(net(x), net.plain().double()(x))


@pytest.mark.parametrize("kind", IN_PLACE, ids=lambda kind: kind.__name__)
def test_in_place_activations_for_extreme_inputs_equal_torch(kind):
    far = [-math.inf, -200.0, -30.0, 30.0, 89.0, 200.0, math.inf, math.nan]
    near = [-1.0, -1e-4, -5e-8, 0.0, 1e-8, 5e-8, 1e-4, 1.0]
    x = torch.tensor(far + near)
    torch.testing.assert_close(IN_PLACE[kind].apply(x.clone()), kind()(x), atol=1e-7, rtol=1e-6, equal_nan=True)


def test_fused_mlp_with_replaced_or_sliced_layers_equals_plain_layers():
    net = mlp(3, (8, 6), 2, "elu")
    assert isinstance(net, nn.Sequential) and list(net.state_dict())[:2] == ["0.weight", "0.bias"]
    x = torch.randn(5, 3)
    torch.testing.assert_close(net[:-1](x), net.plain()[:-1](x))
    net[-1] = nn.Linear(6, 4)
    torch.testing.assert_close(net(x), net.plain()(x))
    assert net(x).shape == (5, 4)
