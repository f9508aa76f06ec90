"""Losses and the adaptive learning rate: paper answers, and torch.distributions for policies that are not Gaussian."""

import math

import pytest
import torch
from torch import distributions

from rsl_rl.algorithms.losses import (
    adapt_learning_rate,
    behavior_loss,
    clipped_value_loss,
    ppo_terms,
    surrogate_loss,
    value_loss,
)
from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.modules.distributions import Beta, Categorical
from rsl_rl.storage.mini_batches import MiniBatch

CLIP = 0.2


@pytest.mark.parametrize(
    ("ratio", "advantage", "expected", "moves"),
    [
        (1.0, 0.7, -0.7, True),
        (1.5, 1.0, -1.2, False),
        (0.5, 1.0, -0.5, True),
        (1.5, -1.0, 1.5, True),
        (0.5, -1.0, 0.8, False),
    ],  # an unchanged policy, and the four corners of figure 1 in the paper
)
def test_surrogate_is_clipped_on_the_greedy_side_only(ratio, advantage, expected, moves):
    log_prob = torch.tensor([[ratio]]).log().requires_grad_()
    loss = surrogate_loss(log_prob, torch.zeros(1, 1), torch.tensor([[advantage]]), CLIP)
    loss.backward()
    assert loss.item() == pytest.approx(expected, rel=1e-6)
    assert log_prob.grad.item() == pytest.approx(-advantage * ratio if moves else 0.0, rel=1e-6)


def test_value_losses_have_known_values_and_gradients():
    values, old, returns = torch.tensor([[1.0]], requires_grad=True), torch.tensor([[0.0]]), torch.tensor([[2.0]])
    for loss, expected, gradient in (
        (value_loss(values, returns), 1.0, -2.0),
        (clipped_value_loss(values, old, returns, CLIP), 1.8**2, 0.0),  # clipped at 0.2
        (clipped_value_loss(values, old, returns, 5.0), 1.0, -2.0),
    ):
        assert loss.item() == pytest.approx(expected)
        assert torch.autograd.grad(loss, values)[0].item() == pytest.approx(gradient)


def batch_of(distribution, actions, **columns):
    old_log_prob = distribution.log_prob(actions) + 0.1 * torch.randn(len(actions), 1)
    ones = torch.ones(len(actions), 1)
    given = {"actions": actions, "values": ones, "returns": 2 * ones, "actions_log_prob": old_log_prob}
    return MiniBatch({}, {**given, "advantages": torch.randn(len(actions), 1), "sample_mask": ones, **columns})


@pytest.mark.parametrize("kind", ["beta", "categorical"])
def test_ppo_terms_of_other_distributions_are_those_of_torch_distributions(kind):
    size = 30
    if kind == "beta":
        ours, old = (Beta(1 + torch.rand(size, 2), 1 + torch.rand(size, 2)) for _ in range(2))
        theirs, before = (distributions.Beta(d.alpha, d.beta) for d in (ours, old))
        actions, scale = ours.sample(), math.log(2.0)  # torch's Beta lives on [0, 1], ours on [-1, 1]
        log_prob = (theirs.log_prob((actions + 1) / 2) - scale).sum(-1, keepdim=True)
        entropy = (theirs.entropy() + scale).sum(-1)
        kl = distributions.kl_divergence(before, theirs).sum(-1)
    else:
        ours, old = (Categorical(torch.randn(size, 4).log_softmax(-1)) for _ in range(2))
        theirs, before = (distributions.Categorical(logits=d.log_probs) for d in (ours, old))
        actions = ours.sample()
        log_prob = theirs.log_prob(actions[:, 0]).unsqueeze(-1)
        entropy, kl = theirs.entropy(), distributions.kl_divergence(before, theirs)
    batch = batch_of(ours, actions, **old.parameters)
    weights = torch.rand(size, 1)
    terms = ppo_terms(ours, torch.zeros(size, 1), batch, weights, PPOConfig(use_clipped_value_loss=False))
    ratio, advantages = (log_prob - batch.columns["actions_log_prob"]).exp(), batch.columns["advantages"]
    surrogate = -torch.min(ratio * advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * advantages)
    w = weights[:, 0]
    expected = (surrogate[:, 0] @ w, 4 * w.sum(), entropy @ w, kl @ w)
    torch.testing.assert_close(torch.stack(terms), torch.stack(expected), atol=1e-5, rtol=1e-5)


def test_ppo_terms_with_appended_samples_take_entropy_and_kl_of_the_collected_ones():
    old = Categorical(torch.randn(6, 3).log_softmax(-1))
    ours = Categorical(torch.cat((torch.randn(6, 3), torch.zeros(6, 3))).log_softmax(-1))
    collected = Categorical(ours.log_probs[:6])
    columns = {"log_probs": old.log_probs.repeat(2, 1)}
    batch = batch_of(ours, ours.sample(), **columns).replace(num_original=6)
    weights = torch.rand(12, 1)
    terms = ppo_terms(ours, torch.zeros(12, 1), batch, weights, PPOConfig())
    share = weights[:6] / weights[:6].sum() * weights.sum()
    torch.testing.assert_close(terms.entropy, (collected.entropy() * share).sum())
    torch.testing.assert_close(terms.kl, (collected.kl_from(old.parameters) * share).sum())


@pytest.mark.parametrize(("loss_type", "expected"), [("mse", (0.0 + 0.25 + 9.0) / 3), ("huber", (0.125 + 2.5) / 3)])
def test_behavior_loss_of_known_differences_is_that_on_paper(loss_type, expected):
    actions = torch.tensor([[[1.0, 2.0, 3.0]], [[0.0, 0.0, 0.0]]])
    teacher_actions = torch.tensor([[[1.0, 1.5, 6.0]], [[0.0, 0.0, 0.0]]])
    loss = behavior_loss(actions, teacher_actions, loss_type)
    assert loss.shape == (2, 1, 1) and loss.flatten().tolist() == pytest.approx([expected, 0.0])


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
