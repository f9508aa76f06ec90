"""Classes of rsl_rl 1 to 5 that a client constructs, derives from and drives, with or without a runner."""

import copy
import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rsl_rl.models import CNNModel, MLPModel, RNNModel
from torch import nn
from torch.distributions import Beta, Normal, kl_divergence

from rsl_rl.algorithms import PPO
from rsl_rl.modules import ActorCritic, ActorCriticRecurrent
from rsl_rl.runners import OnPolicyRunner
from rsl_rl.storage import RolloutStorage
from tests.compat.era_configs import HIDDEN, v1, v2, v3, v5
from tests.era_clients import A, C, D, N, V1PrivilegedEnv, V2Env, V5Env

T = 6
GAUSSIAN = {"class_name": "GaussianDistribution", "init_std": 0.5}
SETS = {"actor": ["actor"], "critic": ["critic"]}


def observations(num_envs=N):
    return {"actor": torch.randn(num_envs, D), "critic": torch.randn(num_envs, C)}


def networks(kind=MLPModel, distribution=GAUSSIAN, **settings):
    obs = observations()
    actor = kind(obs, SETS, "actor", A, hidden_dims=HIDDEN, distribution_cfg=distribution, **settings)
    return actor, kind(obs, SETS, "critic", 1, hidden_dims=HIDDEN, **settings)


def storage(kind="rl"):
    return RolloutStorage(kind, N, T, observations(), [A])


def rollout(alg, env):
    """Collect a rollout as the runner of version 5 does."""
    obs = env.get_observations()
    for _ in range(T):
        obs, rewards, dones, extras = env.step(alg.act(obs))
        alg.process_env_step(obs, rewards, dones, extras)
    alg.compute_returns(obs)


def filled(steps=T):
    """A storage with numbered steps; environment 0 is done at step 3."""
    full = storage()
    for step in range(steps):
        row = RolloutStorage.Transition()
        row.observations = {name: torch.full((N, size), float(step)) for name, size in (("actor", D), ("critic", C))}
        row.actions, row.values = torch.full((N, A), float(step)), torch.full((N, 1), 10.0 * step)
        row.actions_log_prob, row.rewards = torch.zeros(N), torch.zeros(N)
        row.distribution_params = (torch.full((N, A), float(step)), torch.ones(N, A))
        row.dones = (torch.arange(N) == 0).float() * (step == 3)
        row.hidden_states = torch.full((1, N, 4), float(step)), None
        full.add_transition(row)
    return full


# Algorithms


@pytest.mark.parametrize("kind", [MLPModel, RNNModel])
def test_ppo_of_networks_with_its_own_loop_learns(kind):
    torch.manual_seed(0)
    env = V5Env()
    memory = {"rnn_type": "gru", "rnn_hidden_dim": 8} if kind is RNNModel else {}
    alg = PPO(*networks(kind, **memory), storage(), num_learning_epochs=2, num_mini_batches=2, learning_rate=5e-3)
    before, returns = copy.deepcopy(alg.actor.state_dict()), []
    for _ in range(40):
        rollout(alg, env)
        returns.append(float(alg.storage.rewards.mean()))
        losses = alg.update()
        assert math.isfinite(losses["surrogate"]) and math.isfinite(losses["value"]) and alg.storage.step == 0
    assert np.mean(returns[-10:]) > np.mean(returns[:10])
    assert not torch.equal(before["mlp.0.weight"], alg.actor.state_dict()["mlp.0.weight"])


def test_ppo_of_the_module_path_is_that_of_the_package():
    from rsl_rl.algorithms.ppo import PPO as InItsFile  # noqa: N811

    alg = InItsFile(*networks(), storage(), gamma=0.9)
    assert isinstance(alg, PPO) and isinstance(alg, InItsFile) and alg.gamma == 0.9
    first = InItsFile(ActorCritic(D, C, A), num_learning_epochs=3)
    assert isinstance(first, PPO) and first.num_learning_epochs == 3


def test_subclass_of_ppo_with_networks_is_constructed_and_updates_itself():
    class Counting(PPO):
        def __init__(self, actor, critic, storage, extra=1, **others):
            super().__init__(actor, critic, storage, **others)
            self.extra, self.num_batches = extra, 0

        def update(self):
            for batch in self.storage.mini_batch_generator(self.num_mini_batches, self.num_learning_epochs):
                self.actor(batch.observations, stochastic_output=True)
                ratio = torch.exp(
                    self.actor.get_output_log_prob(batch.actions) - batch.old_actions_log_prob.squeeze(-1)
                )
                kl = self.actor.get_kl_divergence(batch.old_distribution_params, self.actor.output_distribution_params)
                loss = -(ratio * batch.advantages.squeeze(-1)).mean() - 0.01 * self.actor.output_entropy.mean()
                loss = loss + (self.critic(batch.observations) - batch.returns).square().mean() + 0.0 * kl.mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.num_batches += 1
            self.storage.clear()
            return {"value": 1.0}

    alg = Counting(*networks(), storage(), extra=3, num_learning_epochs=2, num_mini_batches=3)
    rollout(alg, V5Env())
    assert alg.update() == {"value": 1.0} and alg.num_batches == 6 and alg.extra == 3


def test_ppo_of_a_policy_and_a_storage_learns_as_in_version_3_3():
    policy = ActorCritic(observations(), {"policy": ["actor"], "critic": ["critic"]}, A, actor_hidden_dims=HIDDEN)
    alg = PPO(policy, storage(), num_learning_epochs=2, num_mini_batches=2, rnd_cfg=None)
    before = copy.deepcopy(policy.state_dict())
    rollout(alg, V5Env())
    assert math.isfinite(alg.update()["surrogate"])
    assert not torch.equal(before["actor.0.weight"], policy.state_dict()["actor.0.weight"])


def test_construct_algorithm_of_a_configuration_returns_what_the_runner_has():
    env = V5Env()
    alg = PPO.construct_algorithm(env.get_observations(), env, {**v5(), "multi_gpu": None}, "cpu")
    rollout(alg, env)
    assert math.isfinite(alg.update()["surrogate"])


def test_act_before_init_storage_returns_actions_and_fills_the_transition():
    alg = PPO(ActorCritic(D, D, A), 2, 3)
    assert (alg.num_learning_epochs, alg.num_mini_batches) == (2, 3)
    actions = alg.act(torch.randn(N, D), torch.randn(N, D))
    assert actions.shape == (N, A) and alg.transition.values.shape == (N, 1)
    assert torch.equal(alg.transition.actions, actions)
    alg.init_storage(N, T, [D], [None], [A])
    assert alg.storage.privileged_observations is None and alg.act(torch.randn(N, D)).shape == (N, A)


def test_own_update_under_a_runner_of_version_3_unpacks_ten_items():
    seen = []

    class Own(PPO):
        def update(self):
            for batch in self.storage.mini_batch_generator(self.num_mini_batches, 1):
                obs, actions, values, advantages, returns, log_prob, mean, std, states, masks = batch
                assert set(obs.keys()) == {"actor", "critic"} and states == (None, None) and masks is None
                expected = Normal(mean, std).log_prob(actions).sum(-1, keepdim=True)
                torch.testing.assert_close(log_prob, expected, atol=1e-5, rtol=1e-5)
                seen.append(len(values) + 0 * len(advantages) + 0 * len(returns))
            self.storage.clear()
            return {"value_function": 0.0, "surrogate": 0.0}

    cfg = v3()
    cfg["algorithm"]["class_name"] = Own
    OnPolicyRunner(V5Env(), cfg).learn(2)
    assert sum(seen) == 2 * N * T


# Policies of versions 1 to 3


@pytest.mark.parametrize("memory", [False, True])
def test_policy_of_observation_groups_is_constructed_and_acts(memory):
    kind, more = (ActorCriticRecurrent, {"rnn_type": "gru", "rnn_hidden_dim": 7}) if memory else (ActorCritic, {})
    groups = {"policy": ["actor"], "critic": ["actor", "critic"]}
    policy = kind(observations(), groups, A, actor_hidden_dims=HIDDEN, actor_obs_normalization=True, **more)
    assert policy.act(observations()).shape == (N, A) and policy.evaluate(observations()).shape == (N, 1)
    assert policy.actor_obs_normalization and not policy.critic_obs_normalization
    assert (policy.noise_std_type, policy.state_dependent_std) == ("scalar", False)
    assert policy.actor[0].in_features == (7 if memory else D)


class OwnNormal(ActorCritic):
    """Has a deviation that depends on the observation, as a policy of versions 1 to 3 may."""

    def update_distribution(self, observations):
        mean = self.actor(observations)
        self.distribution = Normal(mean, mean * 0.0 + self.std * (1.0 + 0.1 * observations[..., :1].tanh()))


class WithSuper(ActorCritic):
    def update_distribution(self, observations):
        super().update_distribution(observations)
        assert observations.dim() == 2


class OwnRecurrent(ActorCriticRecurrent):
    def update_distribution(self, observations):
        mean = self.actor(observations)
        self.distribution = Normal(mean, mean * 0.0 + self.std)


@pytest.mark.parametrize("policy", [OwnNormal, WithSuper, OwnRecurrent])
@pytest.mark.parametrize("era", [1, 2, 3])
def test_policy_with_its_own_update_distribution_learns(policy, era):
    cfg, env = ((v1, V1PrivilegedEnv), (v2, V2Env), (v3, V5Env))[era - 1]
    cfg = cfg(**({"rnn_type": "gru"} if policy is OwnRecurrent else {}))
    if era == 1:
        cfg["runner"]["policy_class_name"] = f"{__name__}:{policy.__name__}"
    else:
        cfg["policy"]["class_name"] = policy
    runner = OnPolicyRunner(env(), cfg)
    before = copy.deepcopy(runner.alg.policy.state_dict())
    runner.learn(3)
    after = runner.alg.policy.state_dict()
    assert not torch.equal(before["actor.0.weight"], after["actor.0.weight"]) and not torch.equal(
        before["std"], after["std"]
    )
    if policy is OwnNormal:
        deviation = runner.alg.storage.sigma
        assert deviation.shape == (T, N, A) and deviation.std(dim=1).max() > 0


# Exports


def exported(module, inputs, path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, inputs, str(path), dynamo=False, opset_version=18)
    return pytest.importorskip("onnxruntime").InferenceSession(str(path))


@pytest.mark.parametrize("era", [1, 3, 5])
def test_actor_of_a_trained_policy_exports_by_torch_script(era, tmp_path):
    cfg, env = {1: (v1, V1PrivilegedEnv), 3: (v3, V5Env), 5: (v5, V5Env)}[era]
    runner = OnPolicyRunner(env(), cfg())
    runner.learn(1)
    actor = copy.deepcopy(runner.alg.policy.actor)
    x = torch.randn(1, D)
    session = exported(actor, x, tmp_path / "actor.onnx")
    got = session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]
    np.testing.assert_allclose(got, actor(x).detach().numpy(), atol=1e-6)


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_recurrent_network_exports_after_a_pass_with_gradients(kind):
    actor, _ = networks(RNNModel, rnn_type=kind, rnn_hidden_dim=7)
    x = torch.randn(1, D)
    expected = actor({"actor": x})
    assert expected.requires_grad
    scripted = torch.jit.script(actor.as_jit())
    torch.testing.assert_close(scripted(x), expected.detach())
    state = actor.get_hidden_state()
    assert (state if kind == "gru" else state[0]).requires_grad  # a copy was exported
    actor.detach_hidden_state()
    state = actor.get_hidden_state()
    assert not (state if kind == "gru" else state[0]).requires_grad


def test_network_of_images_exports_and_has_a_state_dict():
    obs = {"actor": torch.randn(2, D), "image": torch.randn(2, 1, 8, 8)}
    cnn = {"output_channels": [4], "kernel_size": 3}
    actor = CNNModel(obs, {"actor": ["actor", "image"]}, "actor", A, cnn_cfg=cnn, distribution_cfg=GAUSSIAN)
    expected = actor(obs)
    scripted = actor.as_jit()
    one = scripted(obs["actor"][:1], obs["image"][:1])
    torch.testing.assert_close(one[0] if isinstance(one, tuple) else one, expected[:1].detach())


# Storage and mini-batches


def test_group_storage_yields_every_step_once_per_epoch():
    batches = list(filled().mini_batch_generator(4, 2))
    assert len(batches) == 8
    steps = torch.cat([batch.actions[:, 0] for batch in batches[:4]])
    assert torch.equal(steps.sort().values, torch.arange(T).repeat_interleave(N).float())
    for batch in batches:
        torch.testing.assert_close(batch.values, 10 * batch.observations["critic"][:, :1])
        torch.testing.assert_close(batch.old_distribution_params[0], batch.actions)


def test_group_storage_yields_trajectories_with_the_states_before_them():
    first, second = filled().recurrent_mini_batch_generator(2, 1)
    assert first.masks.shape == (T, N // 2 + 1) and second.masks.shape == (T, N // 2)
    assert torch.equal(first.hidden_states[0][0, :, 0], torch.tensor([0.0, 4.0, 0.0, 0.0, 0.0]))
    assert first.hidden_states[1] is None and first.actions.shape == (T, N // 2, A)
    assert torch.equal(first.observations["actor"][:2, 1, 0], torch.tensor([4.0, 5.0]))  # after the done


def test_group_storage_refuses_what_does_not_fit():
    full = filled()
    with pytest.raises(OverflowError, match="clear"):
        full.add_transition(RolloutStorage.Transition())
    with pytest.raises(ValueError, match="'distillation'"):
        next(iter(full.generator()))
    with pytest.raises(ValueError, match="training_type='sl'"):
        RolloutStorage("sl", N, T, observations(), [A])
    row = RolloutStorage.Transition()
    row.observations, row.actions = observations(), torch.zeros(N, A)
    with pytest.raises(ValueError, match="no rewards"):
        storage("distillation").add_transition(row)


def test_distillation_of_networks_imitates_the_teacher():
    from rsl_rl.algorithms import Distillation

    torch.manual_seed(0)
    env, obs = V5Env(), observations()
    student = MLPModel(obs, {"student": ["actor"]}, "student", A, hidden_dims=HIDDEN)
    teacher = MLPModel(obs, {"teacher": ["critic"]}, "teacher", A, hidden_dims=HIDDEN)
    alg = Distillation(student, teacher, storage("distillation"), gradient_length=3, num_learning_epochs=2)
    before, losses = copy.deepcopy(teacher.state_dict()), []
    for _ in range(15):
        rollout(alg, env)
        losses.append(alg.update()["behavior"])
    assert losses[-1] < 0.7 * losses[0]
    assert all(torch.equal(value, before[name]) for name, value in teacher.state_dict().items())


# Distributions


@settings(max_examples=20, deadline=None)
@given(st.floats(0.05, 5.0), st.sampled_from(["scalar", "log"]), st.integers(0, 99))
def test_gaussian_distribution_equals_that_of_torch(std, kind, seed):
    from rsl_rl.modules.distribution import GaussianDistribution

    torch.manual_seed(seed)
    ours, mean, actions = GaussianDistribution(A, std, std_type=kind), torch.randn(N, A), torch.randn(N, A)
    ours.update(mean)
    theirs = Normal(mean, torch.full((N, A), std))
    torch.testing.assert_close(ours.log_prob(actions), theirs.log_prob(actions).sum(-1), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(ours.entropy, theirs.entropy().sum(-1), rtol=1e-5, atol=1e-5)
    new = (torch.randn(N, A), torch.rand(N, A) + 0.5)
    expected = kl_divergence(theirs, Normal(*new)).sum(-1)
    torch.testing.assert_close(ours.kl_divergence(ours.params, new), expected, rtol=1e-4, atol=1e-4)


def test_beta_distribution_on_a_range_equals_that_of_torch():
    from rsl_rl.modules.distribution import BetaDistribution

    outputs, ours = torch.randn(N, 2, A), BetaDistribution(A, (-2.0, 4.0))
    ours.update(outputs)
    alpha, beta = ours.params
    unit = Beta(alpha, beta)
    actions = ours.sample()
    expected = unit.log_prob((actions + 2.0) / 6.0).sum(-1) - A * math.log(6.0)
    torch.testing.assert_close(ours.log_prob(actions), expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(ours.mean, -2.0 + 6.0 * unit.mean)
    torch.testing.assert_close(ours.as_deterministic_output_module()(outputs), ours.deterministic_output(outputs))


def test_heteroscedastic_distribution_begins_with_its_deviation():
    distribution = {"class_name": "HeteroscedasticGaussianDistribution", "init_std": 0.3, "std_type": "log"}
    actor, _ = networks(distribution=distribution)
    actor(observations())
    torch.testing.assert_close(actor.output_std, torch.full((N, A), 0.3))


from rsl_rl.modules.distribution import Distribution  # noqa: E402


class Laplace(Distribution):
    """A distribution that this package does not have."""

    def __init__(self, output_dim, scale=0.5):
        super().__init__(output_dim)
        self.log_scale = nn.Parameter(torch.full((output_dim,), math.log(scale)))

    def update(self, outputs):
        self.now = torch.distributions.Laplace(outputs, self.log_scale.exp().expand_as(outputs), validate_args=False)

    def sample(self):
        return self.now.sample()

    def deterministic_output(self, outputs):
        return outputs

    def as_deterministic_output_module(self):
        return nn.Identity()

    mean = property(lambda self: self.now.mean)
    std = property(lambda self: self.now.stddev)
    entropy = property(lambda self: self.now.entropy().sum(-1))
    params = property(lambda self: (self.now.loc, self.now.scale))

    def log_prob(self, actions):
        return self.now.log_prob(actions).sum(-1)

    def kl_divergence(self, old, new):
        pair = (torch.distributions.Laplace(*params, validate_args=False) for params in (old, new))
        return kl_divergence(*pair).sum(-1)


@pytest.mark.parametrize("by_runner", [True, False])
def test_distribution_of_the_client_learns(by_runner):
    torch.manual_seed(0)
    if by_runner:
        cfg = v5()
        cfg["actor"]["distribution_cfg"] = {"class_name": Laplace, "scale": 0.4}
        runner = OnPolicyRunner(V5Env(), cfg)
        alg = runner.alg
        before = copy.deepcopy(alg.actor.state_dict())
        runner.learn(4)
    else:
        alg = PPO(*networks(distribution={"class_name": Laplace}), storage(), num_mini_batches=2)
        before = copy.deepcopy(alg.actor.state_dict())
        rollout(alg, V5Env())
        alg.update()
    after = alg.actor.state_dict()
    assert not torch.equal(before["distribution.log_scale"], after["distribution.log_scale"])


# Extensions


def test_random_network_distillation_of_groups_rewards_what_is_new():
    from rsl_rl.extensions.rnd import RandomNetworkDistillation

    torch.manual_seed(0)
    schedule = {"mode": "linear", "initial_step": 0, "final_step": 4, "final_value": 0.0}
    rnd = RandomNetworkDistillation(D, {"rnd_state": ["actor"]}, 4, [16], [16], weight=2.0)
    obs = observations()
    first = rnd.get_intrinsic_reward(obs)
    for _ in range(100):
        rnd.optimizer.zero_grad()
        rnd.compute_loss(obs).backward()
        rnd.optimizer.step()
    assert first.shape == (N,) and rnd.get_intrinsic_reward(obs).mean() < 0.5 * first.mean()
    scheduled = RandomNetworkDistillation(
        D, {"rnd_state": ["actor"]}, 4, [8], [8], weight=2.0, weight_schedule=schedule
    )
    weights = [(scheduled.get_intrinsic_reward(obs), scheduled.weight)[1] for _ in range(5)]
    assert weights == pytest.approx([1.5, 1.0, 0.5, 0.0, 0.0])


def test_symmetry_of_a_function_appends_images_and_penalises():
    from rsl_rl.extensions.symmetry import Symmetry

    def negated(env, obs, actions):
        mirrored = None if obs is None else {name: torch.cat((x, -x)) for name, x in obs.items()}
        return mirrored, None if actions is None else torch.cat((actions, -actions))

    batch = next(filled().mini_batch_generator(1, 1))
    size, actions = len(batch.actions), batch.actions.clone()
    symmetry = Symmetry(env=None, data_augmentation_func=negated, use_data_augmentation=True, use_mirror_loss=True)
    symmetry.augment_batch(batch, size)
    assert torch.equal(batch.actions, torch.cat((actions, -actions))) and len(batch.returns) == 2 * size
    loss = symmetry.compute_loss(networks()[0], batch, size)
    assert loss.requires_grad and loss > 0
    assert symmetry.compute_loss(lambda obs: obs["actor"][:, :A], batch, size) < 1e-12  # an odd function


# TensorDicts


def test_trajectories_of_a_tensordict_are_a_tensordict(peer, monkeypatch):
    monkeypatch.syspath_prepend(str(peer))
    tensordict = pytest.importorskip("tensordict")
    from rsl_rl.utils import split_and_pad_trajectories, unpad_trajectories

    whole = tensordict.TensorDict({"a": torch.randn(T, N, 3), "b": torch.randn(T, N, 2, 2)}, batch_size=[T, N])
    dones = torch.rand(T, N) < 0.3
    padded, masks = split_and_pad_trajectories(whole, dones)
    assert isinstance(padded, tensordict.TensorDict) and padded.shape == masks.shape
    back = unpad_trajectories(padded, masks)
    assert back.shape == (T, N) and torch.equal(back["b"], whole["b"])


@pytest.mark.parametrize("name", ["nonexistent_module.Some", "nonexistent_module:Some"])
def test_resolve_callable_of_an_unknown_module_is_an_import_error(name):
    from rsl_rl.utils import resolve_callable

    with pytest.raises(ImportError):
        resolve_callable(name)
    with pytest.raises(AttributeError, match="has no 'Nothing'"):
        resolve_callable(name.replace("nonexistent_module", "rsl_rl.algorithms").replace("Some", "Nothing"))


def test_rollout_of_inference_mode_is_learned_from_outside_of_it():
    """As amp-rsl-rl collects: the policy's own statistics, and a storage that is filled transition by transition."""
    policy = ActorCritic(
        observations(), {"policy": ["actor"], "critic": ["critic"]}, A, actor_hidden_dims=HIDDEN,
        actor_obs_normalization=True,
    )  # fmt: skip
    full = storage()
    with torch.inference_mode():
        for _ in range(T):
            row, obs = RolloutStorage.Transition(), observations()
            row.actions, row.values, row.observations = policy.act(obs), policy.evaluate(obs), obs
            row.actions_log_prob = policy.get_actions_log_prob(row.actions)
            row.action_mean, row.action_sigma = policy.action_mean, policy.action_std
            row.rewards, row.dones = torch.randn(N), torch.zeros(N)
            policy.update_normalization(obs)
            full.add_transition(row)
        full.compute_returns(policy.evaluate(observations()), 0.99, 0.95)
    assert policy.actor_obs_normalizer.count == T * N
    for obs, actions, *_, advantages, _, old, _, _, _, _ in full.mini_batch_generator(2, 1):
        policy.act(obs)
        loss = (torch.exp(policy.get_actions_log_prob(actions).unsqueeze(-1) - old) * advantages).mean()
        loss.backward()
    assert policy.actor[0].weight.grad.abs().sum() > 0


class WithTable(nn.Module):
    """A normaliser, an actor without noise and rows of a table, as a client that tracks motions exports them."""

    def __init__(self, policy, normalizer, table):
        super().__init__()
        self.actor, self.normalizer, self.table = copy.deepcopy(policy.actor), copy.deepcopy(normalizer), table

    def forward(self, obs, time):
        return self.actor(self.normalizer(obs)), self.table[time.long().squeeze(-1).clamp(max=len(self.table) - 1)]


class TableRunner(OnPolicyRunner):
    """Takes an argument of its own, and writes an ONNX file beside every checkpoint, named for the run folder."""

    def __init__(self, env, train_cfg, log_dir=None, device="cpu", table=None):
        super().__init__(env, train_cfg, log_dir, device)
        self.table = table

    def save(self, path, infos=None):
        super().save(path, infos)
        if self.logger_type in ["tensorboard"] and self.table is not None:
            folder = path.split("model")[0]
            module = WithTable(self.alg.policy, self.obs_normalizer, self.table).to("cpu")
            inputs = (torch.zeros(1, module.actor[0].in_features), torch.zeros(1, 1))
            exported(module, inputs, folder + folder.split("/")[-2] + ".onnx")


def test_runner_that_exports_in_save_writes_the_policy_of_the_last_file(tmp_path):
    table, folder = torch.randn(5, 3), tmp_path / "run"
    env = V2Env()
    TableRunner(env, v2(), log_dir=str(folder), device="cpu", table=table).learn(3, init_at_random_ep_len=True)
    player = TableRunner(env, v2(), log_dir=None, device="cpu")
    player.load(str(folder / "model_2.pt"))
    assert player.obs_normalizer.count > 0 and player.table is None
    obs, _ = env.get_observations()
    session = pytest.importorskip("onnxruntime").InferenceSession(str(folder / "run.onnx"))
    names = [value.name for value in session.get_inputs()]
    with torch.inference_mode():
        want = player.get_inference_policy(device="cpu")(obs)[:1]
    for time, row in ((1.0, 1), (9.0, 4)):
        got = session.run(None, dict(zip(names, (obs[:1].numpy(), np.array([[time]], np.float32)))))
        np.testing.assert_allclose(got[0], want.numpy(), atol=1e-6)
        np.testing.assert_allclose(got[1], table[row : row + 1].numpy())
