"""Classes that clients derive from ActorCritic and PPO, with the constructors and methods of each version."""

import pytest
import torch
from torch import nn

from rsl_rl.algorithms import PPO
from rsl_rl.algorithms.ppo import PPO as FilePPO  # noqa: N811
from rsl_rl.modules import ActorCritic, ActorCriticRecurrent
from rsl_rl.runners import OnPolicyRunner
from tests.compat.era_configs import HIDDEN, v1, v2, v3, v5
from tests.era_clients import A, C, D, N, V1PrivilegedEnv, V2Env, V5Env

ENVS = {v1: V1PrivilegedEnv, v2: V2Env, v3: V5Env, v5: V5Env}


def runner_of(config, algorithm=None, policy=None, num_envs=N, log_dir=None, **settings):
    """Return a runner for a client's classes, with settings of their own."""
    cfg = config(**(settings if algorithm is None else {}))
    if algorithm is not None:
        cfg["algorithm"].update(settings)
    names = cfg["runner"] if config is v1 else {}
    for section, cls, name in (("algorithm", algorithm, "algorithm"), ("policy", policy, "policy")):
        if cls is not None and config is v1:
            names[f"{name}_class_name"] = cls
        elif cls is not None:
            cfg[section]["class_name"] = cls
    return OnPolicyRunner(ENVS[config](num_envs), cfg, log_dir)


class BySizes(ActorCritic):
    """Versions 1 and 2."""

    def __init__(self, num_actor_obs, num_critic_obs, num_actions, actor_hidden_dims, critic_hidden_dims,
                 activation="elu", init_noise_std=1.0, bonus=0, **kwargs):  # fmt: skip
        super().__init__(num_actor_obs, num_critic_obs, num_actions, actor_hidden_dims=actor_hidden_dims,
                         critic_hidden_dims=critic_hidden_dims, activation="tanh", init_noise_std=init_noise_std,
                         unknown=3)  # fmt: skip
        self.sizes, self.bonus = (num_actor_obs, num_critic_obs, num_actions), bonus


class ByGroups(ActorCritic):
    """Version 3."""

    def __init__(self, obs, obs_groups, num_actions, critic_hidden_dims=(4,), activation="elu", bonus=0, **kwargs):
        super().__init__(obs, obs_groups, num_actions, critic_hidden_dims=[12, 12], activation=activation, **kwargs)
        size = sum(obs[group].shape[-1] for group in obs_groups["policy"])
        self.sizes, self.bonus = (size, obs[obs_groups["critic"][0]].shape[-1], num_actions), bonus
        self.actor = nn.Sequential(nn.Linear(size, 7), nn.ReLU(), nn.Linear(7, num_actions))  # ours is replaced


class RecurrentByGroups(ActorCriticRecurrent):
    def __init__(self, obs, obs_groups, num_actions, rnn_hidden_dim=256, **kwargs):
        super().__init__(obs, obs_groups, num_actions, rnn_hidden_dim=2 * rnn_hidden_dim, **kwargs)


@pytest.mark.parametrize("config", [v1, v2])
def test_a_policy_constructed_by_sizes_learns(config):
    runner = runner_of(config, policy=BySizes, bonus=5)
    policy = runner.alg.policy
    assert isinstance(policy, BySizes) and type(policy).__name__ == "BySizes"
    assert policy.sizes == (D, C, A) and policy.bonus == 5
    assert isinstance(policy.actor[1], nn.Tanh) and policy.actor[0].out_features == HIDDEN[0]  # as it asked
    runner.learn(2)


def test_a_policy_constructed_by_groups_learns_with_the_actor_that_it_replaced(tmp_path):
    runner = runner_of(v3, policy=ByGroups, bonus=5, num_envs=64, log_dir=str(tmp_path))
    policy = runner.alg.policy
    assert policy.sizes == (D, C, A) and policy.bonus == 5 and policy.critic[0].out_features == 12
    assert policy.actor[0].out_features == 7 and policy.actor_obs_normalizer is not None
    before = policy.actor[0].weight.clone()
    runner.learn(40)
    assert not torch.equal(policy.actor[0].weight, before)
    assert runner.collector.recent.means()[0] > -18  # -20 and less untrained
    obs = runner.env.get_observations()
    scripted = torch.jit.load(str(runner.export_policy_to_jit(tmp_path)))
    torch.testing.assert_close(scripted(obs["actor"]), policy.act_inference(obs))
    torch.testing.assert_close(policy.evaluate(obs), policy.evaluate(obs["critic"]))  # groups, as in version 3
    again = runner_of(v3, policy=ByGroups)
    again.load(str(tmp_path / "model_39.pt"))
    torch.testing.assert_close(again.alg.policy.act_inference(obs), policy.act_inference(obs))


def test_a_recurrent_policy_constructed_by_groups_learns():
    runner = runner_of(v3, policy=RecurrentByGroups, rnn_type="gru", rnn_hidden_dim=5)
    assert runner.alg.policy.memory_a.rnn.hidden_size == 10
    runner.learn(2)


class FirstPPO(PPO):
    """Versions 1 and 2: every argument by its name, some by their place."""

    def __init__(self, actor_critic, num_learning_epochs=1, num_mini_batches=1, clip_param=0.2, gamma=0.998, lam=0.95,
                 learning_rate=1e-3, device="cpu", entropy_coef=0.0, bonus=0):  # fmt: skip
        super().__init__(actor_critic, num_learning_epochs, num_mini_batches, clip_param, 0.9, lam=lam, device=device,
                         learning_rate=learning_rate)  # fmt: skip
        self.bonus = bonus

    def process_env_step(self, rewards, dones, infos):
        assert self.transition.values.abs().sum() > 0 and self.transition.actions_log_prob.shape == (N, 1)
        super().process_env_step(rewards + self.bonus, dones, infos)

    def compute_returns(self, last_critic_obs):
        assert last_critic_obs.shape == (N, C)
        last_values = self.actor_critic.evaluate(last_critic_obs).detach()
        self.storage.compute_returns(last_values, self.gamma, self.lam)


class PPOOfFile(FilePPO):
    """Versions 1 and 2, derived from the class in the file of PPO."""

    def __init__(self, actor_critic, bonus=0, **kwargs):
        super().__init__(actor_critic, **kwargs)
        self.bonus = bonus

    def process_env_step(self, rewards, dones, infos):
        super().process_env_step(rewards + self.bonus, dones, infos)


class StoragePPO(PPO):
    """Version 3.3."""

    def __init__(self, policy, storage, bonus=0, **kwargs):
        super().__init__(policy, storage, **kwargs)
        assert self.storage is storage
        self.bonus = bonus


class NetworksPPO(PPO):
    """Versions 4 and 5."""

    def __init__(self, actor, critic, storage, *, num_learning_epochs, bonus=0, multi_gpu_cfg=None, **kwargs):
        super().__init__(actor, critic, storage, num_learning_epochs=3, multi_gpu_cfg=multi_gpu_cfg, **kwargs)
        assert self.storage is storage and storage.num_transitions_per_env == 6
        assert self.actor.mlp is actor.mlp and self.critic.mlp is critic.mlp
        self.bonus = bonus

    def process_env_step(self, obs, rewards, dones, extras):
        assert self.transition.values.abs().sum() > 0
        super().process_env_step(obs, rewards + self.bonus, dones, extras)

    def compute_returns(self, obs):
        st, advantage = self.storage, 0
        last_values = self.critic(obs).detach()
        for step in reversed(range(st.num_transitions_per_env)):
            next_values = last_values if step == st.num_transitions_per_env - 1 else st.values[step + 1]
            going = 1.0 - st.dones[step].float()
            delta = st.rewards[step] + going * self.gamma * next_values - st.values[step]
            advantage = delta + going * self.gamma * self.lam * advantage
            st.returns[step] = advantage + st.values[step]
        st.advantages = st.returns - st.values
        st.advantages = (st.advantages - st.advantages.mean()) / (st.advantages.std() + 1e-8)

    def update(self):
        losses = super().update()
        return {"surrogate": losses["surrogate"], "value": losses["value"], "bonus": 7.0}


@pytest.mark.parametrize("config", [v1, v2])
def test_an_algorithm_with_the_constructor_of_version_1_learns(config):
    runner = runner_of(config, FirstPPO, bonus=2.0, learning_rate=3e-4)
    alg = runner.alg
    assert (
        isinstance(alg, FirstPPO) and alg.bonus == 2.0 and alg.gamma == 0.9 and alg.learning_rate == pytest.approx(3e-4)
    )
    assert alg.num_learning_epochs == 2  # of the configuration
    runner.learn(1)
    assert alg.storage.rewards.mean() > 0  # without the bonus below 0


@pytest.mark.parametrize("config", [v1, v2])
def test_an_algorithm_derived_from_the_class_in_its_file_learns(config):
    runner = runner_of(config, PPOOfFile, bonus=20.0, learning_rate=3e-4)
    assert isinstance(runner.alg, PPO) and runner.alg.actor_critic is runner.alg.policy
    runner.learn(1)
    assert runner.alg.storage.rewards.mean() > 0  # without the bonus below 0


def test_an_algorithm_with_the_constructor_of_version_3_3_learns():
    runner = runner_of(v3, StoragePPO, bonus=2.5, learning_rate=3e-4)
    assert runner.alg.bonus == 2.5 and runner.alg.learning_rate == pytest.approx(3e-4)
    runner.learn(2)


def test_an_algorithm_with_constructor_and_methods_of_version_5_learns_as_ours():
    """Its own estimate of advantages is that of PPO, so without the bonus both learn the same."""
    weights = []
    for cls in (NetworksPPO, PPO):
        torch.manual_seed(0)
        runner = runner_of(v5, cls, num_learning_epochs=3, **({"bonus": 0.0} if cls is NetworksPPO else {}))
        runner.learn(2)
        weights.append(runner.alg.policy.actor[0].weight.detach())
    torch.testing.assert_close(*weights, atol=2e-5, rtol=1e-4)
    runner = runner_of(v5, NetworksPPO, bonus=4.0)
    metrics = []
    update = runner.alg.update
    runner.alg.update = lambda: metrics.append(update()) or metrics[-1]
    runner.learn(1)
    assert runner.alg.storage.rewards.mean() > 0 and metrics[0]["bonus"] == 7.0 and metrics[0]["value_function"] > 0


def test_an_algorithm_with_an_unknown_argument_is_refused():
    class Wrong(PPO):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs, clip_parm=0.1)

    with pytest.raises(TypeError, match="PPO has no argument clip_parm"):
        runner_of(v5, Wrong)


@pytest.mark.parametrize(
    ("config", "section", "names"),
    [
        (v1, {}, ("value_loss", "surrogate_loss")),
        (v2, {}, ("value_loss", "surrogate_loss")),
        (v2, {"rnd_cfg": None}, ("value_loss", "surrogate_loss", "entropy", None, None)),
    ],
)
def test_update_unpacks_into_the_tuple_of_its_version(config, section, names):
    runner = runner_of(config, PPO, **section)
    env, alg = runner.env, runner.alg
    obs, other = (env.obs_buf, env.privileged_obs_buf)
    for _ in range(6):
        env.step(alg.act(obs, other))
        alg.process_env_step(env.rew_buf, env.reset_buf, {})
    alg.compute_returns(other)
    losses = alg.update()
    assert list(losses) == [None if name is None else losses[name].item() for name in names]
    assert losses["surrogate"] is losses["surrogate_loss"]  # of version 2.3, which returned a dict
    assert {"value_loss", "entropy"} <= set(losses.keys())


def test_update_without_a_runner_unpacks_into_two_losses():
    """A loop of version 1: no runner, no configuration."""
    policy = ActorCritic(D, C, A, actor_hidden_dims=HIDDEN, critic_hidden_dims=HIDDEN)
    alg = PPO(policy, num_learning_epochs=2, num_mini_batches=2, device="cpu")
    alg.init_storage(N, 6, [D], [C], [A])
    env = V1PrivilegedEnv()
    env.reset()
    obs, critic_obs = env.get_observations(), env.get_privileged_observations()
    for _ in range(6):
        obs, critic_obs, rewards, dones, infos = env.step(alg.act(obs, critic_obs))
        alg.process_env_step(rewards, dones, infos)
    alg.compute_returns(critic_obs)
    metrics = alg.update()
    mean_value_loss, mean_surrogate_loss = metrics
    assert mean_value_loss == metrics["value_loss"].item() > 0
    assert mean_surrogate_loss == metrics["surrogate_loss"].item()
