"""The loss that keeps a policy near a reference."""

from dataclasses import replace

import pytest
import torch
from torch.distributions import Categorical, Normal, kl_divergence

from configs import EXPERIMENTS
from rsl_rl.config.extensions import ReferenceKLConfig
from rsl_rl.runners import OnPolicyRunner


def runner_of(name, num_envs=16, log_dir=None, **reference):
    cfg = EXPERIMENTS.load(name)()
    extensions = (ReferenceKLConfig(**reference),)
    cfg = replace(cfg, extensions=extensions, runner=replace(cfg.runner, logger="none"))
    return OnPolicyRunner(replace(cfg.env, num_envs=num_envs).build(seed=3), cfg, log_dir)


@torch.no_grad()
def mean_kl(policy, reference, obs):
    """KL(policy || reference) by torch's own distributions."""
    outputs = [network.actor(obs) for network in (policy, reference)]
    if policy.cfg.distribution == "categorical":
        return kl_divergence(*(Categorical(logits=logits) for logits in outputs)).mean()
    normals = [Normal(mean, network.noise_std()) for mean, network in zip(outputs, (policy, reference))]
    return kl_divergence(*normals).sum(dim=-1).mean()


@pytest.mark.parametrize("name", ["toy_grpo", "target_sum", "toy"])
def test_loss_is_the_weighted_divergence_from_the_policy_of_the_start(name):
    runner = runner_of(name, weight=0.5)
    alg, (extension,) = runner.alg, runner.alg.extensions.all
    start = alg.policy.snapshot()
    runner.learn(2)
    obs = runner.env.get_observations()
    alg.begin_rollout()
    for _ in range(runner.num_steps_per_env):
        actions = alg.act(obs)
        obs, reward, done, extras = runner.env.step(actions)
        alg.process_env_step(reward, done, extras, obs)
    alg.compute_returns(obs)
    batch = alg.storage.batches
    batch = batch.gather(next(batch.shuffled(1, 1)))
    alg.policy.update_distribution(batch.groups)
    expected = 0.5 * mean_kl(alg.policy, start, batch.groups["policy"])
    assert expected > 1e-4
    if name == "toy":  # every step counts there
        torch.testing.assert_close(extension.losses(alg.policy, batch)["reference_kl"], expected)
    whole = batch.with_columns(sample_mask=torch.ones_like(batch.sample_mask))
    loss = extension.losses(alg.policy, whole)["reference_kl"]
    torch.testing.assert_close(loss, expected)
    loss.backward()
    assert any(p.grad.abs().max() > 0 for n, p in alg.policy.named_parameters() if n.startswith("actor"))


def test_heavy_weight_keeps_the_policy_near_the_start():
    distances = []
    for weight in (0.0, 100.0):
        torch.manual_seed(2)
        runner = runner_of("toy_grpo", weight=weight)
        start = runner.alg.policy.snapshot()
        runner.learn(5)
        distances.append(mean_kl(runner.alg.policy, start, torch.linspace(-2.0, 2.0, 50).unsqueeze(1)).item())
    assert distances[1] < 0.05 * distances[0]


def test_reference_follows_the_policy_at_its_interval_and_is_in_the_checkpoint(tmp_path):
    runner = runner_of("toy_grpo", log_dir=tmp_path, interval=2)
    runner.learn(2)
    (extension,) = runner.alg.extensions.all
    assert all(torch.equal(v, extension.reference.state_dict()[n]) for n, v in runner.alg.policy.state_dict().items())
    runner.learn(1)
    now, kept = runner.alg.policy.state_dict(), extension.reference.state_dict()
    assert not torch.equal(now["actor.0.weight"], kept["actor.0.weight"])
    other = runner_of("toy_grpo", interval=2)
    other.load(tmp_path / "model_3.pt")
    loaded = other.alg.extensions.all[0]
    assert all(torch.equal(value, kept[name]) for name, value in loaded.reference.state_dict().items())
    assert loaded.num_updates == 3


def test_weights_loaded_before_the_training_are_the_reference(tmp_path):
    runner_of("toy_grpo", log_dir=tmp_path).learn(1)
    tuned = runner_of("toy_grpo")
    tuned.load(tmp_path / "model_1.pt", load_optimizer=False)
    given = {name: value.clone() for name, value in tuned.alg.policy.state_dict().items()}
    tuned.learn(1)
    kept = tuned.alg.extensions.all[0].reference.state_dict()
    assert all(torch.equal(value, kept[name]) for name, value in given.items())
