import pytest
import torch

from rsl_rl.algorithms.losses import adapt_learning_rate, clipped_value_loss, surrogate_loss, value_loss


def test_the_surrogate_of_an_unchanged_policy_is_minus_the_advantage():
    log_prob, advantages = torch.randn(10, 1), torch.randn(10, 1)
    torch.testing.assert_close(surrogate_loss(log_prob, log_prob, advantages, 0.2), -advantages)


@pytest.mark.parametrize(
    ("ratio", "advantage", "expected"),
    [
        (1.5, 1.0, -1.2),
        (0.5, 1.0, -0.5),
        (1.5, -1.0, 1.5),
        (0.5, -1.0, 0.8),
    ],  # the four corners of figure 1 in the paper
)
def test_the_surrogate_is_clipped_on_the_greedy_side_only(ratio, advantage, expected):
    loss = surrogate_loss(torch.tensor([[ratio]]).log(), torch.zeros(1, 1), torch.tensor([[advantage]]), 0.2)
    assert loss.item() == pytest.approx(expected, rel=1e-6)


def test_value_losses():
    values, old, returns = torch.tensor([[1.0]]), torch.tensor([[0.0]]), torch.tensor([[2.0]])
    assert value_loss(values, returns).item() == 1.0
    assert clipped_value_loss(values, old, returns, 0.2).item() == pytest.approx(1.8**2)  # held at 0.2
    assert clipped_value_loss(values, old, returns, 5.0).item() == 1.0


@pytest.mark.parametrize(
    ("rate", "kl", "expected"),
    [
        (1e-3, 0.03, 1e-3 / 1.5),
        (1e-3, 0.004, 1.5e-3),
        (1e-3, 0.01, 1e-3),
        (1e-3, 0.0, 1e-3),
        (9e-3, 0.001, 1e-2),
        (1.2e-5, 1.0, 1e-5),
    ],
)
def test_the_step_size_follows_the_kl_within_its_bounds(rate, kl, expected):
    assert adapt_learning_rate(torch.tensor(rate), torch.tensor(kl), 0.01).item() == pytest.approx(expected, rel=1e-6)
