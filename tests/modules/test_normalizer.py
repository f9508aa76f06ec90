import pytest
import torch

from rsl_rl.modules.normalizer import RunningNorm


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


@pytest.mark.parametrize("before", [0, 1], ids=["in the first batch", "later"])
@pytest.mark.parametrize("value", [1e4, -9.9e5, 1e18])
def test_running_norm_of_one_outlier_changes_little(before, value):
    torch.manual_seed(0)
    data = 3.0 + 0.5 * torch.randn(24, 256, 4)
    norm = RunningNorm(4)
    for _ in range(before):
        norm.update(data)
    data[3, 100, 1] = value
    norm.update(data)
    assert (norm.mean - 3.0).abs().max() < 0.05 and (norm.var.sqrt() - 0.5).abs().max() < 0.4
    norm.update(torch.cat([3.0 + 0.5 * torch.randn(24, 256, 4) for _ in range(10)]))
    assert (norm.var.sqrt() - 0.5).abs().max() < 0.06


def test_running_norm_of_rare_large_values_and_of_a_new_task_follows_them():
    torch.manual_seed(0)
    rare = (torch.rand(24, 256, 1) < 0.01) * 500.0
    norm = RunningNorm(1)
    for _ in range(10):
        norm.update(rare)
    torch.testing.assert_close(norm.var.sqrt(), rare.std().reshape(1), rtol=0.1, atol=0.0)
    norm, shifted = RunningNorm(1), 5000.0 + torch.randn(24, 256, 1)
    norm.update(torch.randn(24, 256, 1))
    norm.update(shifted)
    torch.testing.assert_close(norm.mean, torch.tensor([2500.0]), rtol=0.01, atol=0.0)


def test_running_norm_of_ordinary_data_is_that_without_a_bound_bit_by_bit():
    class Plain(RunningNorm):
        def _without_outliers(self, x, sample_mask):
            return x

    torch.manual_seed(0)
    bounded, plain = RunningNorm(3), Plain(3)
    for _ in range(5):
        batch = torch.randn(24, 33, 3) * torch.tensor([1e-3, 1.0, 1e3]) + torch.tensor([0.0, 50.0, 0.0])
        mask = (torch.rand(24, 33, 1) < 0.9).float()
        bounded.update(batch, mask)
        plain.update(batch, mask)
    assert torch.equal(bounded.mean, plain.mean) and torch.equal(bounded.var, plain.var)


def test_bounds_without_statistics_are_infinite():
    norm = RunningNorm(2)
    assert all(bound.isinf().all() for bound in norm.bounds())
    norm.update(torch.tensor([[0.0, 1.0], [0.0, 3.0]]))
    low, high = norm.bounds()
    torch.testing.assert_close(high, torch.tensor([100.0, 2.0 + 10100.0]))
    torch.testing.assert_close(low, torch.tensor([-100.0, 2.0 - 10100.0]))
