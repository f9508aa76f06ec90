"""Distributions and their families against torch.distributions, and their mirror images."""

import math

import pytest
import torch
from torch import distributions as td
from torch.nn import functional as F

from rsl_rl.config.policy import ActorCriticConfig
from rsl_rl.modules.distributions import (
    Beta,
    Categorical,
    DiagonalGaussian,
    distribution_family,
    gaussian_kl,
    smooth_floor,
)
from rsl_rl.modules.symmetry import mirror, symmetric_mlp

B, A = 7, 3
FAMILIES = {
    "gaussian": {},
    "state-dependent gaussian": {"state_dependent_std": True},
    "state-dependent gaussian, log": {"state_dependent_std": True, "noise_std_type": "log"},
    "beta": {"distribution": "beta"},
    "categorical": {"distribution": "categorical"},
}
MIRRORS = {
    "identity": ((0, 1, 2), (1.0, 1.0, 1.0)),
    "swap and sign": ((1, 0, 2), (1.0, 1.0, -1.0)),
    "swap with sign": ((1, 0, 2), (-1.0, -1.0, 1.0)),
}
CHOICE_MIRRORS = {name: (index, (1.0,) * A) for name, (index, _) in MIRRORS.items()}  # a choice has no sign
"""Mirror images of actions, or of choices."""


def make(kind, shape=(B,)):
    """A distribution of a family, and torch's over the same actions [..., 1], joint."""
    family = distribution_family(ActorCriticConfig(**FAMILIES[kind]), A)
    outputs, std = 1.5 * torch.randn(*shape, family.num_outputs), 0.1 + torch.rand(A)
    ours = family(outputs, std if family.shared_parameters else None)
    return family, ours, as_torch(ours)


def as_torch(ours):
    if isinstance(ours, DiagonalGaussian):
        return td.Independent(td.Normal(ours.mean, ours.std.expand_as(ours.mean)), 1)
    if isinstance(ours, Beta):
        affine = td.AffineTransform(-1.0, 2.0)  # [0, 1] to [-1, 1]
        return td.Independent(td.TransformedDistribution(td.Beta(ours.alpha, ours.beta), [affine]), 1)
    return td.Categorical(logits=ours.log_probs)


def torch_log_prob(theirs, actions):
    actions = actions[..., 0] if isinstance(theirs, td.Categorical) else actions
    return theirs.log_prob(actions).unsqueeze(-1)


@pytest.mark.parametrize("kind", FAMILIES)
@pytest.mark.parametrize("shape", [(B,), (4, B)])
def test_distribution_log_prob_entropy_and_kl_equal_torch_distributions(kind, shape):
    family, ours, theirs = make(kind, shape)
    _, old, old_theirs = make(kind, shape)
    actions = ours.sample()
    assert actions.shape == (*shape, family.action_size) and actions.dtype == family.action_dtype
    torch.testing.assert_close(ours.log_prob(actions), torch_log_prob(theirs, actions), atol=1e-5, rtol=1e-5)
    if isinstance(ours, Beta):  # torch has no entropy of transformed distributions; a scale of 2 adds log 2
        base, before = td.Beta(ours.alpha, ours.beta), td.Beta(old.alpha, old.beta)
        entropy = (base.entropy() + math.log(2.0)).sum(-1, keepdim=True)
        kl = td.kl_divergence(before, base).sum(-1, keepdim=True)
    else:
        entropy, kl = theirs.entropy().unsqueeze(-1), td.kl_divergence(old_theirs, theirs).unsqueeze(-1)
    torch.testing.assert_close(ours.entropy().expand_as(entropy), entropy, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(ours.kl_from(old.parameters), kl, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(ours.kl_from(ours.parameters), torch.zeros_like(kl), atol=1e-5, rtol=0.0)


@pytest.mark.parametrize("kind", FAMILIES)
def test_distribution_samples_have_the_moments_of_torch_distributions(kind):
    _, ours, theirs = make(kind)
    count = 20_000
    repeated = {name: x if x.dim() == 1 else x.expand(count, *x.shape) for name, x in ours.parameters.items()}
    many = type(ours)(**repeated)
    samples = many.sample()
    assert not samples.requires_grad
    if isinstance(ours, Categorical):
        samples, mean, variance = F.one_hot(samples[..., 0], A).float(), theirs.probs, theirs.probs * (1 - theirs.probs)
        kurtosis = 1 / variance - 3  # of a Bernoulli variable, fourth central moment over squared variance
    else:
        base = theirs.base_dist
        is_beta = isinstance(ours, Beta)
        mean = 2 * base.base_dist.mean - 1 if is_beta else base.mean
        variance = 4 * base.base_dist.variance if is_beta else base.variance
        kurtosis = torch.full_like(mean, 3.0)  # of a Gaussian; less for a beta distribution with one peak
        assert not is_beta or (samples.abs() < 1).all()
    # Five standard errors of the mean and of the variance.
    assert ((samples.mean(dim=0) - mean).abs() < 5 * (variance / count).sqrt()).all()
    error = variance * ((kurtosis - 1).clamp(min=0.1) / count).sqrt()
    assert ((samples.var(dim=0) - variance).abs() < 5 * error + 1e-6).all()
    torch.testing.assert_close(ours.std.expand_as(variance), variance.sqrt(), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", FAMILIES)
def test_family_mode_is_that_of_its_distribution(kind):
    family = distribution_family(ActorCriticConfig(**FAMILIES[kind]), A)
    outputs = torch.randn(B, family.num_outputs)
    ours = family(outputs, torch.ones(A) if family.shared_parameters else None)
    assert torch.equal(family.mode(outputs), ours.mode)
    if isinstance(ours, Categorical):
        assert torch.equal(ours.mode[:, 0], ours.log_probs.argmax(-1))
    else:
        base = as_torch(ours).base_dist
        mean = 2 * base.base_dist.mean - 1 if isinstance(ours, Beta) else base.mean
        torch.testing.assert_close(ours.mode, mean)


@pytest.mark.parametrize("kind", FAMILIES)
def test_family_of_stored_parameters_gives_the_distribution_again(kind):
    family, ours, _ = make(kind)
    parameters = ours.parameters
    assert {name: tuple(x.shape[-1:]) for name, x in parameters.items()} == family.parameter_shapes
    assert {name for name, x in parameters.items() if x.dim() == 1} == set(family.shared_parameters)
    actions = ours.sample()
    assert torch.equal(family.of_parameters(parameters).log_prob(actions), ours.log_prob(actions))
    detached = ours.detach()
    assert type(detached) is type(ours) and torch.equal(detached.log_prob(actions), ours.log_prob(actions))


@pytest.mark.parametrize("kind", FAMILIES)
def test_distribution_gradients_of_log_prob_and_entropy_equal_torch_distributions(kind):
    family = distribution_family(ActorCriticConfig(**FAMILIES[kind]), A)
    outputs = torch.randn(B, family.num_outputs).requires_grad_()
    std = (0.1 + torch.rand(A)).requires_grad_()
    ours = family(outputs, std)
    actions = ours.sample()
    entropy = ours.entropy().expand(B, 1).sum()
    theirs = as_torch(ours)
    their_entropy = td.Beta(ours.alpha, ours.beta).entropy() if isinstance(ours, Beta) else theirs.entropy()
    inputs = [outputs, std] if family.shared_parameters else [outputs]
    for mine, its in ((ours.log_prob(actions), torch_log_prob(theirs, actions)), (entropy, their_entropy)):
        gradients = (torch.autograd.grad(x.sum(), inputs, retain_graph=True, allow_unused=True) for x in (mine, its))
        for a, b in zip(*gradients):
            if a is None:  # the entropy of a Gaussian does not depend on its mean
                assert b is None or (b == 0).all()
            else:
                torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", MIRRORS)
@pytest.mark.parametrize("kind", FAMILIES)
def test_family_mirror_parameters_describe_the_mirrored_action(kind, name):
    family, ours, _ = make(kind)
    index, sign = (CHOICE_MIRRORS if kind == "categorical" else MIRRORS)[name]
    index, sign = torch.tensor(index), torch.tensor(sign)
    image = family.mirror_parameters(ours.parameters, index, sign)
    again = family.mirror_parameters(image, index, sign)
    assert set(image) == set(again) == set(ours.parameters)
    assert all(torch.equal(again[key], x) for key, x in ours.parameters.items())
    actions = ours.sample()
    mirrored = family.mirror_actions(actions, index, sign)
    assert mirrored.dtype == actions.dtype and torch.equal(family.mirror_actions(mirrored, index, sign), actions)
    mirrored_policy = family.of_parameters(image)
    torch.testing.assert_close(mirrored_policy.log_prob(mirrored), ours.log_prob(actions), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(mirrored_policy.entropy(), ours.entropy())
    if name != "identity":
        assert not torch.allclose(mirrored_policy.log_prob(actions), ours.log_prob(actions))


@pytest.mark.parametrize("name", MIRRORS)
@pytest.mark.parametrize("kind", FAMILIES)
def test_symmetric_head_with_mirrored_outputs_gives_the_mirrored_distribution(kind, name):
    family = distribution_family(ActorCriticConfig(**FAMILIES[kind]), A)
    action = (CHOICE_MIRRORS if kind == "categorical" else MIRRORS)[name]
    inputs = ((1, 0, 3, 2), (1.0, 1.0, -1.0, -1.0))
    head = symmetric_mlp(inputs, (8,), family.mirror_of_outputs(action), "elu")
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.add_(torch.randn_like(parameter))  # biases too
    index, sign = torch.tensor(action[0]), torch.tensor(action[1])
    std = torch.rand(A) + 0.1
    std = 0.5 * (std + std[index]) if family.shared_parameters else None  # as the symmetric policy has it
    x = torch.randn(B, 4)
    with torch.no_grad():
        ours, image = family(head(x), std), family(head(mirror(x, *map(torch.tensor, inputs))), std)
    for key, expected in family.mirror_parameters(ours.parameters, index, sign).items():
        torch.testing.assert_close(image.parameters[key], expected, atol=1e-5, rtol=1e-5)
    assert ours.std.std() > 0.01 or kind == "gaussian"


# Details


@pytest.mark.parametrize("shape", [(B, A), (A,)])
@pytest.mark.parametrize("with_gradient", [True, False])
def test_gaussian_log_prob_with_and_without_gradient_equals_torch_normal(shape, with_gradient):
    mean, std, actions = torch.randn(B, A), torch.rand(shape) + 0.1, torch.randn(B, A)
    expected = td.Normal(mean, std).log_prob(actions).sum(dim=-1, keepdim=True)
    before = [x.clone() for x in (mean, std, actions)]
    with torch.set_grad_enabled(with_gradient):  # without gradients it computes in place
        torch.testing.assert_close(DiagonalGaussian(mean, std).log_prob(actions), expected)
    assert all(torch.equal(x, old) for x, old in zip((mean, std, actions), before))


def test_gaussian_kl_is_exact_and_zero_between_equals():
    old, new = (td.Normal(torch.randn(B, A), torch.rand(B, A) + 0.1) for _ in range(2))
    expected = td.kl_divergence(old, new).sum(dim=-1)
    torch.testing.assert_close(gaussian_kl(old.mean, old.stddev, new.mean, new.stddev), expected)
    assert (gaussian_kl(old.mean, old.stddev, old.mean, old.stddev) == 0).all()


def test_gaussian_samples_have_the_configured_mean_and_std():
    sample = DiagonalGaussian(torch.tensor([2.0]).expand(100_000, 1), torch.tensor([0.5]).expand(100_000, 1)).sample()
    # Five standard errors of mean (0.5 / sqrt(1e5)) and of deviation (0.5 / sqrt(2e5)).
    assert sample.mean().item() == pytest.approx(2.0, abs=0.008)
    assert sample.std().item() == pytest.approx(0.5, abs=0.006)


def test_smooth_floor_far_above_is_the_identity_and_below_has_a_gradient():
    x = torch.tensor([-5.0, -0.02, 0.0, 0.01, 0.02, 0.2, 1.0, 3.0], requires_grad=True)
    y = smooth_floor(x, 0.01)
    assert (y >= 0.01).all() and (y[1:] > y[:-1]).all()
    assert torch.equal(y[-3:], x[-3:])  # to the last bit
    y.sum().backward()
    assert (x.grad[1:] > 0).all()  # a parameter that fell below finds its way back


def test_beta_log_prob_at_the_bounds_is_finite():
    beta = Beta(torch.tensor([[1.0, 3.0]]), torch.tensor([[1.0, 2.0]]))
    for bound in (-1.0, 1.0):
        assert torch.isfinite(beta.log_prob(torch.full((1, 2), bound))).all()
    torch.testing.assert_close(Beta(torch.ones(1, 1), torch.ones(1, 1)).log_prob(torch.zeros(1, 1)).exp().item(), 0.5)


@pytest.mark.parametrize("log", [False, True])
def test_state_dependent_std_of_zero_outputs_is_the_initial_one_and_stays_above_the_floor(log):
    settings = {"state_dependent_std": True, "init_noise_std": 0.7, "min_noise_std": 0.05}
    family = distribution_family(ActorCriticConfig(noise_std_type="log" if log else "scalar", **settings), A)
    torch.testing.assert_close(family(torch.zeros(B, 2 * A), None).std, torch.full((B, A), 0.7))
    assert (family(torch.full((B, 2 * A), -50.0), None).std >= 0.05).all()
