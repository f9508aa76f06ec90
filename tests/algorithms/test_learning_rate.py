"""The learning rate follows the KL divergence; PPO with a schedule is in test_ppo.py."""

import pytest
import torch

from rsl_rl.algorithms.losses import adapt_learning_rate


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
def test_adapt_learning_rate_follows_the_kl_within_its_bounds(rate, kl, expected):
    assert adapt_learning_rate(torch.tensor(rate), torch.tensor(kl), 0.01).item() == pytest.approx(expected, rel=1e-6)
