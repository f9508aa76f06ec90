import math

import pytest
import torch
from torch import nn

from rsl_rl.modules import dense
from rsl_rl.modules.dense import IN_PLACE
from rsl_rl.modules.mlp import mlp
from rsl_rl.modules.symmetric import symmetric_mlp

IDENTITY = ((0, 1, 2), (1.0, 1.0, -1.0))


@pytest.mark.parametrize("activation", ["elu", "relu", "tanh", "silu"])
@pytest.mark.parametrize("rows", [1, 7, 2500])
@pytest.mark.parametrize("symmetric", [False, True])
def test_it_computes_what_torch_computes(activation, rows, symmetric):
    net = symmetric_mlp(IDENTITY, (8, 6), IDENTITY, activation) if symmetric else mlp(3, (8, 6), 3, activation)
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


def test_sequences_of_rows_and_expanded_gradients_are_no_obstacle():
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


def test_blocks_that_fit_a_cache_give_what_all_rows_at_once_give(monkeypatch):
    monkeypatch.setattr(dense, "_CACHED_NUMBERS", 64)
    net, x = mlp(3, (8, 6), 2, "elu"), torch.randn(21, 3)  # blocks of 8 rows at most
    with torch.no_grad():
        torch.testing.assert_close(net(x), net.plain()(x))


def test_inputs_of_another_precision_are_learned_from_in_theirs():
    net, x = mlp(3, (8,), 2, "elu"), torch.randn(5, 3, dtype=torch.float64)
    torch.testing.assert_close(net(x), net.plain().double()(x))


@pytest.mark.parametrize("kind", IN_PLACE, ids=lambda kind: kind.__name__)
def test_activations_are_those_of_torch_far_out_too(kind):
    far = [-math.inf, -200.0, -30.0, 30.0, 89.0, 200.0, math.inf, math.nan]
    near = [-1.0, -1e-4, -5e-8, 0.0, 1e-8, 5e-8, 1e-4, 1.0]
    x = torch.tensor(far + near)
    torch.testing.assert_close(IN_PLACE[kind].apply(x.clone()), kind()(x), atol=1e-7, rtol=1e-6, equal_nan=True)


def test_a_stack_that_somebody_cut_or_changed_is_what_torch_makes_of_it():
    net = mlp(3, (8, 6), 2, "elu")
    assert isinstance(net, nn.Sequential) and list(net.state_dict())[:2] == ["0.weight", "0.bias"]
    x = torch.randn(5, 3)
    torch.testing.assert_close(net[:-1](x), net.plain()[:-1](x))
    net[-1] = nn.Linear(6, 4)
    torch.testing.assert_close(net(x), net.plain()(x))
    assert net(x).shape == (5, 4)
