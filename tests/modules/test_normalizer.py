import torch

from rsl_rl.modules import RunningNorm


def test_running_norm_of_uneven_batches_equals_statistics_of_all_data():
    data = torch.randn(1000, 3) * torch.tensor([1.0, 10.0, 0.1]) + torch.tensor([0.0, 5.0, -3.0])
    norm = RunningNorm(3)
    for batch in data.split([1, 10, 389, 600]):
        norm.update(batch)
    torch.testing.assert_close(norm.mean, data.mean(dim=0), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(norm.var, data.var(dim=0, unbiased=False), atol=1e-5, rtol=1e-4)
    assert norm.count.item() == 1000


def test_running_norm_forward_leaves_the_statistics_unchanged():
    norm = RunningNorm(2)
    norm.update(torch.randn(10, 2))
    before = {name: value.clone() for name, value in norm.state_dict().items()}
    norm.train()
    norm(torch.randn(50, 2))
    assert all(torch.equal(before[name], value) for name, value in norm.state_dict().items())


def test_running_norm_of_a_constant_returns_zeros():
    norm = RunningNorm(1)
    norm.update(torch.full((10, 1), 4.0))
    assert norm(torch.full((2, 1), 4.0)).abs().max() < 1e-6


def test_running_norm_of_a_rollout_equals_that_of_its_flat_samples():
    data = torch.randn(4, 5, 3)
    one, other = RunningNorm(3), RunningNorm(3)
    one.update(data)
    other.update(data.flatten(0, 1))
    assert torch.equal(one.mean, other.mean) and torch.equal(one.var, other.var)
