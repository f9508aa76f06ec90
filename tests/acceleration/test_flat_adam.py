import copy

import pytest
import torch
from torch import nn

from rsl_rl.acceleration import flat_adam as flat_adam_module
from rsl_rl.acceleration.flat_adam import FlatAdam

RATE = 2.0**-7  # the same in float32 and float64


def nets():
    net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)).double()
    return net, copy.deepcopy(net)


def flat_adam(net, learning_rate=RATE, max_grad_norm=0.5):
    parameters = list(net.parameters())
    return FlatAdam(parameters, (parameters[2:], parameters[:2]), torch.tensor(learning_rate), max_grad_norm)


def loss(net, seed):
    x = torch.randn(10, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return 30 * net(x).square().mean()  # gradients longer than the limit, at first


def torch_step(net, adam, seed, max_grad_norm=0.5):
    adam.zero_grad()
    loss(net, seed).backward()
    parameters = list(net.parameters())
    for group in (parameters[2:], parameters[:2]):
        nn.utils.clip_grad_norm_(group, max_grad_norm)
    adam.step()


def our_step(net, adam, seed):
    adam.zero_grad()
    loss(net, seed).backward()
    adam.step()


def assert_equal(ours, theirs):
    rounding = {
        "atol": 1e-7,
        "rtol": 1e-5,
    }  # our learning rate and bias corrections are float32, whatever the weights are
    for a, b in zip(ours.parameters(), theirs.parameters()):
        torch.testing.assert_close(a, b, **rounding)
        torch.testing.assert_close(a.grad, b.grad, **rounding)


def test_flat_adam_with_clipped_groups_equals_torch_adam():
    ours, theirs = nets()
    flat, adam = flat_adam(ours), torch.optim.Adam(theirs.parameters(), lr=RATE)
    for seed in range(20):
        our_step(ours, flat, seed)
        torch_step(theirs, adam, seed)
        assert_equal(ours, theirs)


@pytest.mark.parametrize("to_torch", [True, False])
def test_flat_adam_state_exchanged_with_torch_adam_continues_equally(to_torch):
    ours, theirs = nets()
    flat, adam = flat_adam(ours), torch.optim.Adam(theirs.parameters(), lr=RATE)
    for seed in range(5):
        our_step(ours, flat, seed)
        torch_step(theirs, adam, seed)
    assert list(flat.state_dict()) == list(adam.state_dict()) and list(flat.state_dict()["state"]) == [0, 1, 2, 3]
    if to_torch:
        adam = torch.optim.Adam(theirs.parameters(), lr=1.0)
        adam.load_state_dict(copy.deepcopy(flat.state_dict()))
        adam.param_groups[0]["lr"] = float(adam.param_groups[0]["lr"])
    else:
        flat = flat_adam(ours, learning_rate=1.0)
        flat.load_state_dict(copy.deepcopy(adam.state_dict()))
        assert flat.param_groups[0]["lr"].item() == RATE
    for seed in range(5, 10):
        our_step(ours, flat, seed)
        torch_step(theirs, adam, seed)
        assert_equal(ours, theirs)


def test_flat_adam_with_a_learning_rate_written_to_its_tensor_uses_it():
    net, other = nets()
    flat = flat_adam(net)
    flat.param_groups[0]["lr"].fill_(0.0)
    our_step(net, flat, 0)
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), other.parameters()))


def test_flat_adam_parameter_without_gradient_does_not_change():
    net, other = nets()
    flat = flat_adam(net)
    net[0].requires_grad_(False)
    our_step(net, flat, 0)
    assert torch.equal(net[0].weight, other[0].weight) and not torch.equal(net[2].weight, other[2].weight)


def test_flat_adam_with_states_of_other_shapes_or_incomplete_groups_raises():
    net, _ = nets()
    flat = flat_adam(net)
    state = flat.state_dict()
    state["state"][0]["exp_avg"] = torch.zeros(2, 2)
    with pytest.raises(ValueError, match=r"exp_avg of a parameter \[5, 3\] has the shape \[2, 2\]"):
        flat.load_state_dict(state)
    parameters = list(net.parameters())
    with pytest.raises(ValueError, match="every parameter once"):
        FlatAdam(parameters, (parameters[1:],), torch.tensor(0.1), 1.0)


def test_flat_adam_attach_with_detached_parameters_and_gradients_moves_them_back():
    net, other = nets()
    flat, adam = flat_adam(net), torch.optim.Adam(other.parameters(), lr=RATE)
    for seed in range(3):
        net.zero_grad(set_to_none=True)  # the gradients are gone
        net[0].weight.data = net[0].weight.data.clone()  # and a weight lies elsewhere
        flat.attach()
        our_step(net, flat, seed)
        torch_step(other, adam, seed)
        assert_equal(net, other)


def test_flat_adam_part_by_part_gives_equal_bits(monkeypatch):
    results = []
    for size in (1 << 16, 16, 48):  # all parameters, or parts that cut layers and groups
        monkeypatch.setattr(flat_adam_module, "_NUMBERS_AT_ONCE", size)
        torch.manual_seed(1)
        net = nn.Sequential(nn.Linear(3, 50), nn.Tanh(), nn.Linear(50, 2)).double()
        adam = flat_adam(net)
        for seed in range(5):
            our_step(net, adam, seed)
        next(net.parameters()).grad[0, 0] = torch.nan
        adam.step()
        results.append([tensor for tensor in (adam._values, adam._gradients, adam._first, adam._second)])
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other))


def test_flat_adam_does_not_import_the_compiler_of_torch(run_script):
    code = (
        "import sys, torch\n"
        "from rsl_rl.acceleration.flat_adam import FlatAdam\n"
        "parameters = [torch.nn.Parameter(torch.ones(3))]\n"
        "adam = FlatAdam(parameters, [parameters], torch.tensor(1e-3), 1.0)\n"
        "adam.step()\n"
        "adam.load_state_dict(adam.state_dict())\n"
        "adam.zero_grad()\n"
        "print('torch._dynamo' in sys.modules)"
    )
    done = run_script("-W", "error", "-c", code)
    assert done.stdout == "False\n", done.stderr
