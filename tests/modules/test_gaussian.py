import pytest
import torch
from torch.distributions import Normal, kl_divergence

from rsl_rl.modules.gaussian import DiagonalGaussian, gaussian_kl, smooth_floor


def test_densities_and_entropies_are_those_of_torch():
    mean, std, actions = torch.randn(7, 3), torch.rand(7, 3) + 0.1, torch.randn(7, 3)
    ours, theirs = DiagonalGaussian(mean, std), Normal(mean, std)
    torch.testing.assert_close(ours.log_prob(actions), theirs.log_prob(actions))
    torch.testing.assert_close(ours.entropy(), theirs.entropy())


@pytest.mark.parametrize("shape", [(7, 3), (3,)])
def test_the_joint_density_follows_from_distances(shape):
    mean, std, actions = torch.randn(7, 3), torch.rand(shape) + 0.1, torch.randn(7, 3)
    expected = Normal(mean, std).log_prob(actions).sum(dim=-1, keepdim=True)
    distance = (actions - mean) / std
    torch.testing.assert_close(DiagonalGaussian(mean, std).joint_log_prob(distance.square()), expected)


def test_kl_is_exact_and_zero_between_equals():
    old, new = Normal(torch.randn(7, 3), torch.rand(7, 3) + 0.1), Normal(torch.randn(7, 3), torch.rand(7, 3) + 0.1)
    expected = kl_divergence(old, new).sum(dim=-1)
    torch.testing.assert_close(gaussian_kl(old.mean, old.stddev, new.mean, new.stddev), expected)
    assert (gaussian_kl(old.mean, old.stddev, old.mean, old.stddev) == 0).all()


def test_samples_have_the_mean_and_spread_asked_for():
    sample = DiagonalGaussian(torch.tensor([2.0]).expand(100_000, 1), torch.tensor([0.5]).expand(100_000, 1)).sample()
    # Five standard errors of mean (0.5 / sqrt(1e5)) and of deviation (0.5 / sqrt(2e5)).
    assert sample.mean().item() == pytest.approx(2.0, abs=0.008)
    assert sample.std().item() == pytest.approx(0.5, abs=0.006)


def test_the_floor_is_never_crossed_and_never_felt_far_above():
    x = torch.tensor([-5.0, -0.02, 0.0, 0.01, 0.02, 0.2, 1.0, 3.0], requires_grad=True)
    y = smooth_floor(x, 0.01)
    assert (y >= 0.01).all() and (y[1:] > y[:-1]).all()
    assert torch.equal(y[-3:], x[-3:])  # to the last bit
    y.sum().backward()
    assert (x.grad[1:] > 0).all()  # a parameter that fell below finds its way back
