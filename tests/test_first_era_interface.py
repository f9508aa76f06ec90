"""What the documentation of the first era of rsl_rl states of names, signatures, shapes and behaviour.

What differs on purpose is in docs/migrating.md, "The first version, statement by statement".
"""

import inspect
import math
from typing import get_type_hints

import pytest
import torch
from rsl_rl.modules.actor_critic_recurrent import ActorCriticRecurrent, Memory
from rsl_rl.runners.on_policy_runner import OnPolicyRunner
from rsl_rl.utils.utils import split_and_pad_trajectories, unpad_trajectories
from torch import nn
from torch.utils.tensorboard import SummaryWriter

from rsl_rl.algorithms import PPO
from rsl_rl.env import VecEnv
from rsl_rl.modules import ActorCritic, get_activation
from rsl_rl.storage import RolloutStorage
from tests.compat.era_configs import v1
from tests.era_clients import V1Env, V1PrivilegedEnv

T, N, D, C, A, H = 5, 6, 3, 4, 2, 8


def ppo(recurrent=None, **settings):
    sizes = {"actor_hidden_dims": [8], "critic_hidden_dims": [8], "activation": "elu", "init_noise_std": 1.0}
    if recurrent:
        policy = ActorCriticRecurrent(D, C, A, **sizes, rnn_type=recurrent, rnn_hidden_size=H, rnn_num_layers=1)
    else:
        policy = ActorCritic(D, C, A, **sizes)
    given = {"num_learning_epochs": 2, "num_mini_batches": 2, "schedule": "fixed", "desired_kl": 0.01, **settings}
    alg = PPO(policy, device="cpu", **given)
    alg.init_storage(N, T, [D], [C], [A])
    return alg


def collect(alg, done_rate=0.3):
    for _ in range(T):
        alg.act(torch.randn(N, D), torch.randn(N, C))
        alg.process_env_step(torch.randn(N), torch.rand(N) < done_rate, {"time_outs": torch.rand(N) < 0.5})
    alg.compute_returns(torch.randn(N, C))


# algorithms/ppo.py


def test_ppo_has_the_stated_settings_and_parts():
    alg = ppo(schedule="adaptive", learning_rate=2e-3, clip_param=0.3, use_clipped_value_loss=False)
    assert (alg.desired_kl, alg.schedule, alg.clip_param, alg.use_clipped_value_loss) == (0.01, "adaptive", 0.3, False)
    assert alg.learning_rate == pytest.approx(2e-3)
    for name in ("num_learning_epochs", "num_mini_batches", "value_loss_coef", "entropy_coef", "gamma", "lam"):
        assert isinstance(getattr(alg, name), (int, float))
    assert isinstance(alg.max_grad_norm, float) and isinstance(alg.actor_critic, ActorCritic)
    assert isinstance(alg.storage, RolloutStorage) and isinstance(alg.transition, RolloutStorage.Transition)
    assert PPO(ActorCritic(D, C, A)).storage is None  # until init_storage
    plain = torch.optim.Adam(alg.actor_critic.parameters(), lr=2e-3)
    collect(alg)
    alg.update()
    plain.load_state_dict(alg.optimizer.state_dict())  # in Adam's form


def test_ppo_act_fills_the_transition_and_returns_detached_actions():
    alg = ppo()
    obs, critic_obs = torch.randn(N, D), torch.randn(N, C)
    actions, step = alg.act(obs, critic_obs), alg.transition
    assert not actions.requires_grad and actions.shape == (N, A)
    policy = alg.actor_critic
    assert torch.equal(step.actions, actions) and torch.equal(step.observations, obs)
    assert torch.equal(step.critic_observations, critic_obs)
    torch.testing.assert_close(step.values, policy.evaluate(critic_obs).detach())
    torch.testing.assert_close(step.action_mean, policy.act_inference(obs).detach())
    torch.testing.assert_close(step.action_sigma.expand(N, A), policy.action_std.detach())
    policy.update_distribution(obs)
    torch.testing.assert_close(step.actions_log_prob.flatten(), policy.get_actions_log_prob(actions).detach())


@pytest.mark.parametrize("recurrent", [None, "gru", "lstm"])
def test_ppo_process_env_step_stores_the_step_and_clears_the_transition(recurrent):
    alg = ppo(recurrent)
    alg.act(torch.randn(N, D), torch.randn(N, C))
    dones = torch.arange(N) < 2
    alg.process_env_step(torch.ones(N), dones, {})
    assert alg.storage.step == 1 and torch.equal(alg.storage.dones[0, :, 0], dones)
    assert alg.transition.actions is None and (alg.storage.rewards[0] == 1).all()
    for state in alg.actor_critic.get_hidden_states() if recurrent else ():
        for part in (state,) if recurrent == "gru" else state:
            assert (part[:, :2] == 0).all() and (part[:, 2:] != 0).any()  # reset where done


def test_ppo_time_outs_are_bootstrapped_with_the_value():
    alg = ppo(gamma=0.9)
    for _ in range(T):
        alg.act(torch.randn(N, D), torch.randn(N, C))
        alg.process_env_step(torch.zeros(N), torch.ones(N), {"time_outs": torch.arange(N) < 3})
    alg.compute_returns(torch.randn(N, C))
    expected = 0.9 * alg.storage.values * (torch.arange(N) < 3).float().view(N, 1)
    torch.testing.assert_close(alg.storage.rewards, expected)


@pytest.mark.parametrize("recurrent", [None, "gru", "lstm"])
def test_generators_yield_eleven_items_that_the_policy_takes_back(recurrent):
    alg = ppo(recurrent)
    for _ in range(2):  # the second rollout begins with states that are not zero
        collect(alg)
        storage, policy = alg.storage, alg.actor_critic
        generator = storage.reccurent_mini_batch_generator if recurrent else storage.mini_batch_generator
        batches = list(generator(2, 3))
        assert len(batches) == 6
        for batch in batches:
            (obs, critic_obs, actions, target_values, advantages, returns, old_log_prob, old_mu, old_sigma, hid_states,
             masks) = batch  # fmt: skip
            if recurrent:
                assert (
                    obs.shape == (T, masks.shape[1], D) and masks.shape == obs.shape[:2] and masks.dtype == torch.bool
                )
                assert (masks.sum(dim=0) >= 1).all() and masks.sum() == actions.shape[0] * actions.shape[1]
            else:
                assert obs.shape == (T * N // 2, D) and masks is None
            with torch.no_grad():
                policy.act(obs, masks=masks, hidden_states=hid_states[0])
                log_prob = policy.get_actions_log_prob(actions)
                values = policy.evaluate(critic_obs, masks=masks, hidden_states=hid_states[1])
            torch.testing.assert_close(log_prob, old_log_prob.squeeze(-1), rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(values, target_values, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(policy.action_mean, old_mu, rtol=1e-4, atol=1e-5)
            assert policy.entropy.shape == log_prob.shape and old_sigma.shape == old_mu.shape
            assert advantages.shape == returns.shape == target_values.shape
        alg.update()


def test_ppo_update_returns_its_losses_and_clears_the_storage():
    alg = ppo()
    collect(alg)
    losses = alg.update()
    assert math.isfinite(losses["value_loss"]) and math.isfinite(losses["surrogate_loss"]) and alg.storage.step == 0


@pytest.mark.parametrize(("kl", "factor"), [(0.021, 1 / 1.5), (0.02, 1.0), (0.005, 1.0), (0.0049, 1.5), (0.0, 1.0)])
def test_adaptive_schedule_compares_with_twice_and_half_of_the_desired_kl(kl, factor):
    alg = ppo(schedule="adaptive", learning_rate=1e-3, num_learning_epochs=1, num_mini_batches=1)
    collect(alg)
    terms = torch.tensor([0.0, 0.0, 0.0, kl])
    alg.learner.backward = lambda *args: terms.clone()  # a mini-batch with this KL
    alg.update()
    assert alg.learning_rate == pytest.approx(1e-3 * factor)


def test_ppo_train_and_test_mode_switch_the_networks():
    alg = ppo()
    alg.test_mode()
    assert not alg.actor_critic.training
    alg.train_mode()
    assert alg.actor_critic.training


# env/vec_env.py


def test_vec_env_is_abstract_and_names_the_stated_members():
    assert inspect.isabstract(VecEnv)
    with pytest.raises(TypeError, match="abstract"):
        VecEnv()
    assert {
        "num_envs", "num_obs", "num_privileged_obs", "num_actions", "max_episode_length", "obs_buf",
        "privileged_obs_buf", "rew_buf", "reset_buf", "episode_length_buf", "extras", "device",
    } <= set(get_type_hints(VecEnv))  # fmt: skip
    for name in ("step", "reset", "get_observations", "get_privileged_observations"):
        assert callable(getattr(VecEnv, name))


def test_subclass_with_a_step_of_five_results_trains():
    class Client(V1PrivilegedEnv, VecEnv):
        device = cfg = extras = None

    env = Client()
    runner = OnPolicyRunner(env, v1())
    runner.learn(1)
    assert isinstance(env, VecEnv) and runner.alg.policy.critic_model.groups == ("critic",)
    assert len(env.step(torch.zeros(env.num_envs, env.num_actions))) == 5


# modules


def test_networks_have_the_stated_classes_and_parts():
    assert issubclass(ActorCriticRecurrent, ActorCritic) and issubclass(ActorCritic, nn.Module)
    assert ActorCritic.is_recurrent is False and ActorCriticRecurrent.is_recurrent is True
    policy = ActorCriticRecurrent(D, C, A, rnn_type="gru", rnn_hidden_size=H)
    assert isinstance(policy.actor, nn.Sequential) and isinstance(policy.critic, nn.Sequential)
    assert isinstance(policy.memory_a, Memory) and isinstance(policy.memory_c, Memory)
    assert isinstance(policy.std, nn.Parameter) and policy.std.shape == (A,)
    assert "std" in dict(policy.named_parameters())


def test_init_weights_makes_linear_layers_orthogonal_with_their_gains():
    layers = nn.Sequential(nn.Linear(6, 6), nn.ELU(), nn.Linear(6, 6))
    ActorCritic.init_weights(layers, [2.0, 0.5])
    for layer, gain in ((layers[0], 2.0), (layers[2], 0.5)):
        torch.testing.assert_close(layer.weight @ layer.weight.t(), gain**2 * torch.eye(6), rtol=1e-4, atol=1e-5)


def test_distribution_properties_are_those_of_independent_normals():
    policy = ActorCritic(D, C, A, actor_hidden_dims=[8], critic_hidden_dims=[8])
    obs, actions = torch.randn(N, D), torch.randn(N, A)
    policy.update_distribution(obs)
    normal = torch.distributions.Normal(policy.actor(obs), policy.noise_std())
    torch.testing.assert_close(policy.action_mean, normal.mean)
    torch.testing.assert_close(policy.action_std, normal.stddev)
    torch.testing.assert_close(policy.entropy, normal.entropy().sum(dim=-1))
    torch.testing.assert_close(policy.get_actions_log_prob(actions), normal.log_prob(actions).sum(dim=-1))
    torch.testing.assert_close(policy.act_inference(obs), policy.actor(obs))
    assert not torch.equal(policy.act(obs), policy.act(obs)) and policy.evaluate(torch.randn(N, C)).shape == (N, 1)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("elu", nn.ELU), ("selu", nn.SELU), ("relu", nn.ReLU), ("lrelu", nn.LeakyReLU), ("tanh", nn.Tanh),
     ("sigmoid", nn.Sigmoid)],
)  # fmt: skip
def test_get_activation_returns_the_layer_of_its_name(name, kind):
    assert isinstance(get_activation(name), kind)


@pytest.mark.parametrize(("type", "kind"), [("gru", nn.GRU), ("lstm", nn.LSTM)])
def test_memory_steps_with_its_own_state_and_runs_padded_trajectories_from_given_ones(type, kind):
    memory = Memory(D, type=type, num_layers=2, hidden_size=H)
    assert isinstance(memory.rnn, kind) and memory.hidden_states is None
    obs, dones = torch.randn(T, N, D), torch.rand(T, N) < 0.3
    steps = []
    for t in range(T):
        steps.append(memory(obs[t]).squeeze(0))  # [N, H]
        memory.reset(dones[t])
    padded, masks = split_and_pad_trajectories(obs, dones)
    zeros = memory.zero_states(masks.shape[1])
    outputs = memory(padded, masks, zeros[0] if type == "gru" else zeros)
    torch.testing.assert_close(outputs, torch.stack(steps))
    memory.reset()
    assert memory.hidden_states is None


# runners/on_policy_runner.py


def test_runner_takes_the_three_sections_and_resets_the_environment(tmp_path):
    env, cfg = V1Env(), v1()
    runner = OnPolicyRunner(env, cfg, str(tmp_path), device="cpu")
    assert env.num_resets == 1 and runner.env is env
    assert (runner.cfg, runner.alg_cfg, runner.policy_cfg) == (cfg["runner"], cfg["algorithm"], cfg["policy"])
    assert isinstance(runner.alg, PPO) and isinstance(runner.alg.actor_critic, ActorCritic)
    assert runner.num_steps_per_env == 6 and runner.save_interval == 2 and str(runner.log_dir) == str(tmp_path)
    assert (runner.tot_timesteps, runner.tot_time, runner.current_learning_iteration) == (0, 0, 0)
    runner.writer.add_scalar("tag", 1.0, 0)
    assert isinstance(runner.writer._writer, SummaryWriter)
    runner.writer.close()


def test_runner_learns_logs_saves_and_loads(tmp_path):
    seen = []

    class Runner(OnPolicyRunner):
        def log(self, locs, width=80, pad=35):
            seen.append(locs["collection_time"] + locs["learn_time"])

    runner = Runner(V1Env(), v1(), str(tmp_path))
    runner.learn(num_learning_iterations=2, init_at_random_ep_len=True)
    assert runner.tot_timesteps == 2 * 6 * runner.env.num_envs and runner.tot_time == pytest.approx(sum(seen))
    runner.save(str(tmp_path / "own.pt"), infos={"note": 1})
    saved = torch.load(tmp_path / "own.pt", weights_only=True)
    assert {"model_state_dict", "optimizer_state_dict", "iter", "infos"} <= set(saved) and saved["iter"] == 2
    other = OnPolicyRunner(V1Env(), v1())
    assert other.load(str(tmp_path / "own.pt"), load_optimizer=True) == {"note": 1}
    assert other.current_learning_iteration == 2
    policy = other.get_inference_policy(device="cpu")
    obs = torch.randn(N, other.env.num_obs)
    torch.testing.assert_close(policy(obs), runner.alg.actor_critic.act_inference(obs))


def test_runner_with_a_recurrent_policy_class_name_trains_it():
    runner = OnPolicyRunner(V1Env(), v1(rnn_type="gru", rnn_hidden_size=H))
    runner.learn(1)
    assert isinstance(runner.alg.actor_critic, ActorCriticRecurrent)


# storage/rollout_storage.py


def test_storage_has_the_stated_buffers():
    storage = RolloutStorage(N, T, [D], [C], [A], "cpu")
    assert storage.device == torch.device("cpu") and (storage.num_transitions_per_env, storage.num_envs) == (T, N)
    assert (storage.obs_shape, storage.privileged_obs_shape, storage.actions_shape) == ((D,), (C,), (A,))
    assert storage.observations.shape == (T, N, D) and storage.privileged_observations.shape == (T, N, C)
    for name in ("rewards", "dones", "actions_log_prob", "values", "returns", "advantages"):
        assert getattr(storage, name).shape == (T, N, 1), name
    for name in ("actions", "mu", "sigma"):
        assert getattr(storage, name).shape == (T, N, A), name
    assert storage.step == 0
    assert RolloutStorage(N, T, [2, 4, 4], None, [A]).observations.shape == (T, N, 2, 4, 4)
    assert RolloutStorage(N, T, [D], None, [A]).privileged_obs_shape is None


def test_storage_adds_transitions_until_it_is_full_and_clears():
    storage = RolloutStorage(N, T, [D], [C], [A])
    transition = RolloutStorage.Transition()
    transition.observations, transition.critic_observations = torch.ones(N, D), torch.ones(N, C)
    transition.actions = transition.action_mean = transition.action_sigma = torch.ones(N, A)
    transition.rewards = transition.dones = transition.values = transition.actions_log_prob = torch.ones(N)
    transition.hidden_states = None
    for t in range(T):
        storage.add_transitions(transition)
        assert storage.step == t + 1
    with pytest.raises(OverflowError):
        storage.add_transitions(transition)
    storage.clear()
    assert storage.step == 0


def test_storage_saves_hidden_states_of_gru_and_lstm_as_tuples():
    storage = RolloutStorage(N, T, [D], [C], [A])
    storage._save_hidden_states(None)
    assert storage.saved_hidden_states_a == ()
    storage._save_hidden_states((torch.ones(1, N, H), (torch.ones(1, N, H), torch.zeros(1, N, H))))
    assert (len(storage.saved_hidden_states_a), len(storage.saved_hidden_states_c)) == (1, 2)


def test_storage_computes_gae_and_normalized_advantages():
    storage, gamma, lam = RolloutStorage(N, T, [D], None, [A]), 0.9, 0.8
    storage.rewards.normal_()
    storage.values.normal_()
    storage.dones.copy_(torch.rand(T, N, 1) < 0.3)
    last_values, advantage, expected = torch.randn(N, 1), 0.0, torch.zeros(T, N, 1)
    storage.compute_returns(last_values, gamma, lam)
    for t in reversed(range(T)):
        next_values = last_values if t == T - 1 else storage.values[t + 1]
        going = 1.0 - storage.dones[t].float()
        delta = storage.rewards[t] + going * gamma * next_values - storage.values[t]
        advantage = delta + going * gamma * lam * advantage
        expected[t] = advantage
    torch.testing.assert_close(storage.returns, expected + storage.values)
    torch.testing.assert_close(storage.advantages, (expected - expected.mean()) / (expected.std() + 1e-8))
    length, reward = storage.get_statistics()
    assert 0 < length <= T and reward == storage.rewards.mean()


def test_mini_batch_generator_shuffles_all_transitions_without_regard_to_time():
    storage = RolloutStorage(N, T, [1], None, [A])
    storage.observations.copy_(torch.arange(T * N).view(T, N, 1))
    seen = [batch[0] for batch in map(tuple, storage.mini_batch_generator(3, num_epochs=1))]
    assert [len(obs) for obs in seen] == [10, 10, 10]
    assert sorted(torch.cat(seen).flatten().tolist()) == list(range(T * N))
    assert torch.cat(seen).flatten().tolist() != list(range(T * N))


# utils/utils.py


def test_unpad_trajectories_undoes_split_and_pad_trajectories():
    x, dones = torch.arange(T * N * 2.0).view(T, N, 2), torch.rand(T, N, 1) < 0.3
    padded, masks = split_and_pad_trajectories(x, dones)
    assert masks.dtype == torch.bool and padded.shape == (T, masks.shape[1], 2) and (padded[~masks] == 0).all()
    assert masks.shape[1] == N + dones[:-1].sum()
    assert torch.equal(unpad_trajectories(padded, masks), x)
