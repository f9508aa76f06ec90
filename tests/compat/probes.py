"""Sixteen probes of the API of rsl_rl 3 and 5: each is a client's code that constructs, drives and exports by itself.

They import rsl_rl alone, so the same code runs with upstream's package:

    PYTHONPATH=UPSTREAM:. python tests/compat/probes.py 5     # eight probes of version 5, in a folder to write to
"""

# pyright: reportMissingImports=false, reportArgumentType=false
from __future__ import annotations

import copy
import math
import sys
import tempfile
from pathlib import Path

import torch
from torch import nn

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]
import era_clients  # noqa: E402
import era_configs  # noqa: E402
from era_clients import A, C, D, N  # noqa: E402

T = 6
PROBES = {3: {}, 5: {}}


def probe(function):
    """Register a function ``v<major>_<what>(folder)``."""
    major, name = function.__name__[1:].split("_", 1)
    PROBES[int(major)][name] = function
    return function


def wrap(groups):
    """Return groups as upstream's package wants them, or a dict, which ours takes too, without tensordict."""
    try:
        from tensordict import TensorDict
    except ModuleNotFoundError:
        return groups
    return TensorDict(groups, batch_size=[len(groups["actor"])])


def env():
    return era_clients.V5Env(wrap=wrap)


def observations():
    return wrap({"actor": torch.randn(N, D), "critic": torch.randn(N, C)})


def trained(major, folder, kind=None, iterations=2, **changes):
    """Return a runner of a version after some iterations."""
    from rsl_rl.runners import OnPolicyRunner

    cfg = era_configs.CONFIGS[major]()
    cfg["algorithm"].update(changes.pop("algorithm", {}))
    for section, values in changes.items():
        cfg[section].update(values)
    runner = (kind or OnPolicyRunner)(env(), cfg, log_dir=str(folder), device="cpu")
    if iterations:
        runner.learn(iterations)
    return runner


def collect(alg, steps=T):
    here = env()
    obs = here.get_observations()
    for _ in range(steps):
        obs, rewards, dones, extras = here.step(alg.act(obs))
        alg.process_env_step(obs, rewards, dones, extras)
    alg.compute_returns(obs)


def changed(before, after):
    return any(not torch.equal(before[name], after[name]) for name in before)


# Version 3


def policy_3(**settings):
    from rsl_rl.modules import ActorCritic

    groups = {"policy": ["actor"], "critic": ["critic"]}
    return ActorCritic(observations(), groups, A, actor_hidden_dims=[16], critic_hidden_dims=[16], **settings)


@probe
def v3_constructors(folder):
    from rsl_rl.modules import ActorCriticRecurrent

    policy = policy_3(actor_obs_normalization=True, noise_std_type="log")
    assert policy.act(observations()).shape == (N, A) and policy.evaluate(observations()).shape == (N, 1)
    assert policy.action_mean.shape == policy.action_std.shape == (N, A) and policy.entropy.shape == (N,)
    groups = {"policy": ["actor"], "critic": ["critic"]}
    memory = ActorCriticRecurrent(observations(), groups, A, rnn_type="lstm", rnn_hidden_dim=8)
    assert memory.is_recurrent and memory.act(observations()).shape == (N, A)
    memory.reset(torch.ones(N))


@probe
def v3_algorithm_with_a_loop_of_its_own(folder):
    from rsl_rl.algorithms import PPO

    policy = policy_3()
    alg = PPO(policy, num_learning_epochs=2, num_mini_batches=2, device="cpu")
    alg.init_storage("rl", N, T, observations(), [A])
    before = copy.deepcopy(policy.state_dict())
    collect(alg)
    losses = alg.update()
    assert math.isfinite(losses["surrogate"]) and math.isfinite(losses["value_function"])
    assert changed(before, policy.state_dict())


@probe
def v3_own_update(folder):
    from rsl_rl.algorithms import PPO

    class Own(PPO):
        batches = 0

        def update(self):
            for batch in self.storage.mini_batch_generator(self.num_mini_batches, self.num_learning_epochs):
                obs, actions, _values, advantages, returns, log_prob, _mean, _std, _states, _masks = batch
                self.policy.act(obs)
                ratio = torch.exp(self.policy.get_actions_log_prob(actions) - log_prob.squeeze(-1))
                loss = -(ratio * advantages.squeeze(-1)).mean()
                loss = loss + (self.policy.evaluate(obs) - returns).square().mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                Own.batches += 1
            self.storage.clear()
            return {"value_function": 1.0}

    alg = Own(policy_3(), num_learning_epochs=2, num_mini_batches=3)
    alg.init_storage("rl", N, T, observations(), [A])
    collect(alg)
    assert alg.update() == {"value_function": 1.0} and Own.batches == 6


@probe
def v3_own_exporter(folder):
    runner = trained(3, folder)
    policy = runner.alg.policy
    exported = torch.jit.script(copy.deepcopy(policy.actor))
    x = torch.randn(4, D)
    torch.testing.assert_close(exported(x), policy.actor(x))
    normalised = policy.actor_obs_normalizer(x)
    torch.testing.assert_close(exported(normalised), policy.act_inference(wrap_of(x)), atol=1e-6, rtol=1e-5)


def wrap_of(x):
    return wrap({"actor": x, "critic": torch.zeros(len(x), C)})


@probe
def v3_own_storage(folder):
    from rsl_rl.algorithms import PPO
    from rsl_rl.storage import RolloutStorage

    storage = RolloutStorage("rl", N, T, observations(), [A], device="cpu")
    for step in range(T):
        row = RolloutStorage.Transition()
        row.observations, row.actions = observations(), torch.full((N, A), float(step))
        row.rewards, row.dones, row.values = torch.ones(N), torch.zeros(N), torch.zeros(N, 1)
        row.actions_log_prob, row.action_mean, row.action_sigma = torch.zeros(N), torch.zeros(N, A), torch.ones(N, A)
        storage.add_transitions(row)
    alg = PPO(policy_3())
    alg.storage = storage
    alg.compute_returns(observations())
    total = sum(len(batch[1]) for batch in storage.mini_batch_generator(2, 3))
    assert total == 3 * N * T and storage.returns.shape == (T, N, 1)


@probe
def v3_own_distribution(folder):
    from torch.distributions import Normal

    from rsl_rl.modules import ActorCritic

    class Own(ActorCritic):
        calls = 0

        def update_distribution(self, obs):
            mean = self.actor(obs)
            self.distribution = Normal(mean, mean * 0.0 + 0.3)
            Own.calls += 1

    import rsl_rl.runners.on_policy_runner as module

    module.OwnProbe = Own  # version 3 finds a class by its name in this module
    runner = trained(3, folder, policy={"class_name": "OwnProbe"})
    assert Own.calls > 0 and abs(float(runner.alg.policy.action_std.mean()) - 0.3) < 1e-5


@probe
def v3_runner_of_its_own(folder):
    from rsl_rl.runners import OnPolicyRunner

    saved = []

    class Own(OnPolicyRunner):
        def save(self, path, infos=None):
            super().save(path, infos)
            saved.append(Path(path).name)

    runner = trained(3, folder, Own)
    assert saved and runner.current_learning_iteration in (1, 2)
    again = trained(3, Path(folder) / "again", iterations=0)
    again.load(str(Path(folder) / saved[-1]))
    assert not changed(runner.alg.policy.state_dict(), again.alg.policy.state_dict())


@probe
def v3_inference_policy(folder):
    runner = trained(3, folder)
    policy = runner.get_inference_policy(device="cpu")
    with torch.no_grad():
        assert policy(observations()).shape == (N, A)
    runner.eval_mode()
    runner.train_mode()


# Version 5


def networks_5(distribution=None):
    from rsl_rl.models import MLPModel

    sets, obs = {"actor": ["actor"], "critic": ["critic"]}, observations()
    distribution = distribution or {"class_name": "GaussianDistribution", "init_std": 0.5, "std_type": "scalar"}
    actor = MLPModel(obs, sets, "actor", A, hidden_dims=[16], distribution_cfg=distribution)
    return actor, MLPModel(obs, sets, "critic", 1, hidden_dims=[16])


def storage_5():
    from rsl_rl.storage import RolloutStorage

    return RolloutStorage("rl", N, T, observations(), [A])


@probe
def v5_constructors(folder):
    from rsl_rl.models import RNNModel

    actor, critic = networks_5()
    assert actor(observations()).shape == (N, A) and critic(observations()).shape == (N, 1)
    actor(observations(), stochastic_output=True)
    assert actor.output_mean.shape == actor.output_std.shape == (N, A) and actor.output_entropy.shape == (N,)
    sets = {"actor": ["actor"]}
    memory = RNNModel(observations(), sets, "actor", A, rnn_type="gru", rnn_hidden_dim=8)
    assert memory.is_recurrent and memory(observations()).shape == (N, A)
    memory.reset(torch.ones(N))


@probe
def v5_algorithm_with_a_loop_of_its_own(folder):
    from rsl_rl.algorithms import PPO

    actor, critic = networks_5()
    alg = PPO(actor, critic, storage_5(), num_learning_epochs=2, num_mini_batches=2)
    before = copy.deepcopy(actor.state_dict())
    collect(alg)
    losses = alg.update()
    assert math.isfinite(losses["surrogate"]) and math.isfinite(losses["value"])
    assert changed(before, actor.state_dict())


@probe
def v5_own_update(folder):
    from rsl_rl.algorithms import PPO

    class Own(PPO):
        batches = 0

        def update(self):
            for batch in self.storage.mini_batch_generator(self.num_mini_batches, self.num_learning_epochs):
                self.actor(batch.observations, stochastic_output=True)
                old = batch.old_actions_log_prob.squeeze(-1)
                ratio = torch.exp(self.actor.get_output_log_prob(batch.actions) - old)
                loss = -(ratio * batch.advantages.squeeze(-1)).mean()
                loss = loss + (self.critic(batch.observations) - batch.returns).square().mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                Own.batches += 1
            self.storage.clear()
            return {"value": 1.0}

    alg = Own(*networks_5(), storage_5(), num_learning_epochs=2, num_mini_batches=3)
    collect(alg)
    assert alg.update() == {"value": 1.0} and Own.batches == 6


@probe
def v5_own_exporter(folder):
    runner = trained(5, folder)
    actor = runner.alg.actor
    x = torch.randn(4, D)
    expected = actor(wrap_of(x))
    torch.testing.assert_close(torch.jit.script(actor.as_jit())(x), expected, atol=1e-6, rtol=1e-5)
    exported = actor.as_onnx(verbose=False)
    torch.testing.assert_close(exported(x), expected, atol=1e-6, rtol=1e-5)


@probe
def v5_own_storage(folder):
    from rsl_rl.storage import RolloutStorage

    storage = storage_5()
    for step in range(T):
        row = RolloutStorage.Transition()
        row.observations, row.actions = observations(), torch.full((N, A), float(step))
        row.rewards, row.dones, row.values = torch.ones(N), torch.zeros(N), torch.zeros(N, 1)
        row.actions_log_prob = torch.zeros(N)
        row.distribution_params = (torch.zeros(N, A), torch.ones(N, A))
        storage.add_transition(row)
    storage.returns[:], storage.advantages[:] = 1.0, 2.0
    batches = list(storage.mini_batch_generator(2, 3))
    assert sum(len(batch.actions) for batch in batches) == 3 * N * T
    assert float(batches[0].advantages.mean()) == 2.0 and batches[0].observations["actor"].shape[-1] == D


@probe
def v5_own_distribution(folder):
    from rsl_rl.modules.distribution import Distribution

    class Laplace(Distribution):
        def __init__(self, output_dim, scale=0.5):
            super().__init__(output_dim)
            self.log_scale = nn.Parameter(torch.full((output_dim,), math.log(scale)))

        def update(self, outputs):
            scale = self.log_scale.exp().expand_as(outputs)
            self.now = torch.distributions.Laplace(outputs, scale, validate_args=False)

        def sample(self):
            return self.now.sample()

        def deterministic_output(self, outputs):
            return outputs

        def as_deterministic_output_module(self):
            return nn.Identity()

        input_dim = property(lambda self: self.output_dim)
        mean = property(lambda self: self.now.mean)
        std = property(lambda self: self.now.stddev)
        entropy = property(lambda self: self.now.entropy().sum(-1))
        params = property(lambda self: (self.now.loc, self.now.scale))

        def log_prob(self, outputs):
            return self.now.log_prob(outputs).sum(-1)

        def kl_divergence(self, old_params, new_params):
            old, new = (torch.distributions.Laplace(*x, validate_args=False) for x in (old_params, new_params))
            return torch.distributions.kl_divergence(old, new).sum(-1)

    runner = trained(5, folder, actor={"distribution_cfg": {"class_name": Laplace, "scale": 0.4}})
    assert changed(
        {"log_scale": torch.full((A,), math.log(0.4))}, {"log_scale": runner.alg.actor.distribution.log_scale}
    )


@probe
def v5_runner_of_its_own(folder):
    from rsl_rl.runners import OnPolicyRunner

    saved = []

    class Own(OnPolicyRunner):
        def save(self, path, infos=None):
            super().save(path, infos)
            saved.append(Path(path).name)

    runner = trained(5, folder, Own)
    assert saved
    again = trained(5, Path(folder) / "again", iterations=0)
    again.load(str(Path(folder) / saved[-1]))
    assert not changed(runner.alg.actor.state_dict(), again.alg.actor.state_dict())


@probe
def v5_inference_policy(folder):
    runner = trained(5, folder)
    policy = runner.get_inference_policy(device="cpu")
    with torch.no_grad():
        assert policy(observations()).shape == (N, A)
    runner.export_policy_to_jit(path=str(folder), filename="policy.pt")
    assert torch.jit.load(str(Path(folder) / "policy.pt"))(torch.randn(1, D)).shape == (1, A)


if __name__ == "__main__":
    failed = 0
    for what, run in PROBES[int(sys.argv[1])].items():
        try:
            with tempfile.TemporaryDirectory() as place:
                run(place)
        except Exception as error:
            failed += 1
            print(f"{what}: {type(error).__name__}: {error}")
        else:
            print(f"{what}: passed")
    sys.exit(failed)
