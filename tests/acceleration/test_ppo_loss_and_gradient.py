"""PPO's loss in closed form: paper answers, and its terms and gradients against autograd over torch.distributions."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributions import Normal, kl_divergence

from rsl_rl.acceleration.ppo_loss_and_gradient import (
    PPOLossAndGradient,
    clipped_value_loss_and_gradient,
    ppo_loss_and_gradient,
    surrogate_loss_and_gradient,
    value_loss_and_gradient,
)
from rsl_rl.algorithms.ppo import ppo_backward
from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.modules.distributions import DiagonalGaussian
from rsl_rl.storage.mini_batches import MiniBatch

B, A, CLIP, VALUE_COEF, ENTROPY_COEF = 50, 3, 0.2, 0.7, 0.03


def test_surrogate_of_an_unchanged_policy_is_minus_the_advantage():
    log_prob, advantages = torch.randn(10, 1), torch.randn(10, 1)
    loss, gradient = surrogate_loss_and_gradient(log_prob, log_prob, advantages, CLIP)
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
def test_surrogate_is_clipped_on_the_greedy_side_only(ratio, advantage, expected, moves):
    loss, gradient = surrogate_loss_and_gradient(
        torch.tensor([[ratio]]).log(), torch.zeros(1, 1), torch.tensor([[advantage]]), CLIP
    )
    assert loss.item() == pytest.approx(expected, rel=1e-6)
    assert gradient.item() == pytest.approx(-advantage * ratio if moves else 0.0, rel=1e-6)


def test_value_losses_have_known_values_and_gradients():
    values, old, returns = torch.tensor([[1.0]]), torch.tensor([[0.0]]), torch.tensor([[2.0]])
    assert [x.item() for x in value_loss_and_gradient(values, returns)] == [1.0, -2.0]
    loss, gradient = clipped_value_loss_and_gradient(values, old, returns, CLIP)
    assert loss.item() == pytest.approx(1.8**2) and gradient.item() == 0.0  # clipped at 0.2
    assert [x.item() for x in clipped_value_loss_and_gradient(values, old, returns, 5.0)] == [1.0, -2.0]


def textbook(mean, std, values, columns, weights, clipped):
    """The terms and the loss as the papers write them, for autograd."""
    policy = Normal(mean, std.expand_as(mean))
    ratio = (policy.log_prob(columns["actions"]).sum(-1, keepdim=True) - columns["actions_log_prob"]).exp()
    advantages = columns["advantages"]
    surrogate = -torch.min(ratio * advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * advantages)
    value = (values - columns["returns"]) ** 2
    if clipped:
        near = columns["values"] + (values - columns["values"]).clamp(-CLIP, CLIP)
        value = torch.max(value, (near - columns["returns"]) ** 2)
    entropy = policy.entropy().sum(-1, keepdim=True)
    kl = kl_divergence(Normal(columns["action_mean"], columns["action_std"]), policy).sum(-1, keepdim=True)
    terms = [(weights * x).sum() for x in (surrogate, value, entropy, kl)]
    return terms, terms[0] + VALUE_COEF * terms[1] - ENTROPY_COEF * terms[2]


@given(
    seed=st.integers(0, 1000),
    drift=st.sampled_from([0.0, 0.05, 0.5]),  # how far the policy has moved: no ratio, some and most are clipped
    clipped=st.booleans(),
    one_std=st.booleans(),
    weighted=st.booleans(),
)
def test_ppo_gradients_have_the_terms_and_gradients_of_the_textbook(seed, drift, clipped, one_std, weighted):
    torch.manual_seed(seed)

    def draw(*shape):
        return torch.randn(*shape, dtype=torch.float64)

    old_mean, old_std, old_values = draw(B, A), draw(A).exp().expand(B, A), CLIP * draw(B, 1)
    actions = old_mean + old_std * draw(B, A)
    columns = {
        "actions": actions,
        "values": old_values,
        "advantages": draw(B, 1),
        "returns": draw(B, 1),
        "actions_log_prob": Normal(old_mean, old_std).log_prob(actions).sum(-1, keepdim=True),
        "sample_mask": torch.ones(B, 1),
        "action_mean": old_mean,
        "action_std": old_std,
    }
    batch = MiniBatch({}, columns)
    cfg = PPOConfig(
        clip_param=CLIP, value_loss_coef=VALUE_COEF, entropy_coef=ENTROPY_COEF, use_clipped_value_loss=clipped
    )
    mean = (old_mean + drift * draw(B, A)).requires_grad_()
    std = old_std[0] if one_std else old_std
    std = (std * (drift * torch.randn_like(std)).exp()).requires_grad_()
    # Not the old ones plus something: a value and its change are then not exact in each other's terms.
    values = (CLIP * draw(B, 1)).requires_grad_()
    weights = (torch.rand if weighted else torch.ones)(B, 1, dtype=torch.float64) / B

    policy = DiagonalGaussian(mean.detach(), std.detach())
    terms, gradients = ppo_loss_and_gradient(policy, values.detach(), batch, weights, cfg)
    expected, loss = textbook(mean, std, values, columns, weights, clipped)
    torch.testing.assert_close(terms, torch.stack(expected))
    expected_gradients = torch.autograd.grad(loss, (mean, std, values))
    for ours, autograd in zip(gradients, expected_gradients):
        torch.testing.assert_close(ours, autograd)

    for add_gradients in (PPOLossAndGradient(), ppo_backward):
        mean.grad = std.grad = values.grad = None
        # A loss that was added counts with weight 1, that in closed form too.
        added = {"shift": (mean * torch.ones_like(mean)).sum()}
        result = add_gradients(DiagonalGaussian(mean, std), values, batch, weights, cfg, added)
        torch.testing.assert_close(result, torch.stack(expected))
        assert not result.requires_grad
        for x, autograd, shift in zip((mean, std, values), expected_gradients, (1.0, 0.0, 0.0)):
            torch.testing.assert_close(x.grad, autograd + shift)
