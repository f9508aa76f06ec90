import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributions import Normal, kl_divergence

from rsl_rl.algorithms.losses import adapt_learning_rate, clipped_value_loss, ppo_loss, surrogate_loss, value_loss
from rsl_rl.modules.gaussian import DiagonalGaussian
from rsl_rl.storage import MiniBatch

B, A, CLIP = 50, 3, 0.2


def test_the_surrogate_of_an_unchanged_policy_is_minus_the_advantage():
    log_prob, advantages = torch.randn(10, 1), torch.randn(10, 1)
    loss, gradient = surrogate_loss(log_prob, log_prob, advantages, CLIP)
    torch.testing.assert_close(loss, -advantages)
    torch.testing.assert_close(gradient, -advantages)


@pytest.mark.parametrize(
    ("ratio", "advantage", "expected", "moves"),
    [
        (1.5, 1.0, -1.2, False),
        (0.5, 1.0, -0.5, True),
        (1.5, -1.0, 1.5, True),
        (0.5, -1.0, 0.8, False),
    ],  # the four corners of figure 1 in the paper
)
def test_the_surrogate_is_clipped_on_the_greedy_side_only(ratio, advantage, expected, moves):
    loss, gradient = surrogate_loss(torch.tensor([[ratio]]).log(), torch.zeros(1, 1), torch.tensor([[advantage]]), CLIP)
    assert loss.item() == pytest.approx(expected, rel=1e-6)
    assert gradient.item() == pytest.approx(-advantage * ratio if moves else 0.0, rel=1e-6)


def test_value_losses():
    values, old, returns = torch.tensor([[1.0]]), torch.tensor([[0.0]]), torch.tensor([[2.0]])
    assert [x.item() for x in value_loss(values, returns)] == [1.0, -2.0]
    loss, gradient = clipped_value_loss(values, old, returns, CLIP)
    assert loss.item() == pytest.approx(1.8**2) and gradient.item() == 0.0  # held at 0.2
    assert [x.item() for x in clipped_value_loss(values, old, returns, 5.0)] == [1.0, -2.0]


def textbook(mean, stddev, values, batch, weights, value_loss_coef, entropy_coef, clipped):
    """The terms and the loss as the papers write them, for autograd."""
    policy = Normal(mean, stddev.expand_as(mean))
    ratio = (policy.log_prob(batch.actions).sum(-1, keepdim=True) - batch.old_actions_log_prob).exp()
    surrogate = -torch.min(ratio * batch.advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * batch.advantages)
    value = (values - batch.returns) ** 2
    if clipped:
        held = batch.values + (values - batch.values).clamp(-CLIP, CLIP)
        value = torch.max(value, (held - batch.returns) ** 2)
    entropy = policy.entropy().sum(-1, keepdim=True)
    kl = kl_divergence(Normal(batch.old_mu, batch.old_sigma), policy).sum(-1, keepdim=True)
    terms = [(weights * x).sum() for x in (surrogate, value, entropy, kl)]
    return terms, terms[0] + value_loss_coef * terms[1] - entropy_coef * terms[2]


@given(
    seed=st.integers(0, 1000),
    drift=st.sampled_from([0.0, 0.05, 0.5]),  # how far the policy has moved: no ratio, some and most are clipped
    clipped=st.booleans(),
    one_stddev=st.booleans(),
    weighted=st.booleans(),
)
def test_terms_and_gradients_are_those_of_autograd(seed, drift, clipped, one_stddev, weighted):
    torch.manual_seed(seed)

    def draw(*shape):
        return torch.randn(*shape, dtype=torch.float64)

    old_mu, old_sigma, old_values = draw(B, A), draw(A).exp().expand(B, A), CLIP * draw(B, 1)
    actions = old_mu + old_sigma * draw(B, A)
    batch = MiniBatch(
        observations=draw(B, 1),
        critic_observations=draw(B, 1),
        actions=actions,
        values=old_values,
        advantages=draw(B, 1),
        returns=draw(B, 1),
        old_actions_log_prob=Normal(old_mu, old_sigma).log_prob(actions).sum(-1, keepdim=True),
        weights=torch.ones(B, 1),
        old_mu=old_mu,
        old_sigma=old_sigma,
    )
    mean = (old_mu + drift * draw(B, A)).requires_grad_()
    stddev = old_sigma[0] if one_stddev else old_sigma
    stddev = (stddev * (drift * torch.randn_like(stddev)).exp()).requires_grad_()
    # Not the old ones plus something: a value and its change are then not exact in each other's terms.
    values = (CLIP * draw(B, 1)).requires_grad_()
    weights = (torch.rand if weighted else torch.ones)(B, 1, dtype=torch.float64) / B

    terms, gradients = ppo_loss(
        DiagonalGaussian(mean.detach(), stddev.detach()), values.detach(), batch, weights, CLIP, 0.7, 0.03, clipped
    )
    expected, loss = textbook(mean, stddev, values, batch, weights, 0.7, 0.03, clipped)
    torch.testing.assert_close(terms, torch.stack(expected))
    for ours, autograd in zip(gradients, torch.autograd.grad(loss, (mean, stddev, values))):
        torch.testing.assert_close(ours, autograd)


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
