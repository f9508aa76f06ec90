import pytest
import torch

from rsl_rl.algorithms import PPO
from rsl_rl.modules import ActorCritic, ActorCriticRecurrent
from rsl_rl.utils.trajectories import as_states

T, N, D, C, A = 6, 8, 3, 4, 2
NETS = {"actor_hidden_dims": (16,), "critic_hidden_dims": (16,)}


def make(recurrent=None, policy=None, **settings) -> PPO:
    policy = {**NETS, **(policy or {})}
    if recurrent:
        net = ActorCriticRecurrent(D, C, A, rnn_type=recurrent, rnn_hidden_size=5, **policy)
    else:
        net = ActorCritic(D, C, A, **policy)
    ppo = PPO(net, **{"num_mini_batches": 2, "num_learning_epochs": 3, **settings})
    ppo.init_storage(N, T, [D], [C], [A])
    return ppo


def collect(ppo: PPO, done_rate: float = 0.2) -> None:
    for _ in range(T):
        ppo.act(torch.randn(N, D), torch.randn(N, C))
        ppo.process_env_step(torch.randn(N), torch.rand(N) < done_rate, {"time_outs": torch.rand(N) < 0.5})
    ppo.compute_returns(torch.randn(N, C))


def test_observations_are_stored_before_the_environment_moves_on():
    ppo = make()
    obs, critic_obs = torch.zeros(N, D), torch.zeros(N, C)
    for t in range(T):
        obs.fill_(t)
        ppo.act(obs, critic_obs)
        obs.fill_(t + 0.5)  # the environment refreshes its buffer in place
        ppo.process_env_step(torch.zeros(N), torch.zeros(N), {})
    assert ppo.storage.observations[:, 0, 0].tolist() == list(range(T))


def test_a_time_out_is_credited_with_the_value_of_the_final_observation():
    ppo = make(gamma=0.9)
    ppo.act(torch.randn(N, D), torch.randn(N, C))
    final = {"policy": torch.randn(N, D), "critic": torch.randn(N, C)}
    ppo.actor_critic.cfg = type(ppo.actor_critic.cfg)(critic_groups=("critic",), **NETS)
    time_outs = torch.arange(N) < 3
    dones = torch.arange(N) < 5
    ppo.process_env_step(torch.ones(N), dones, {"time_outs": time_outs, "final_obs": final})
    value = ppo.actor_critic.evaluate(final["critic"]).detach()[:, 0]
    torch.testing.assert_close(ppo.storage.rewards[0, :, 0], 1 + 0.9 * value * (torch.arange(N) < 3))


def test_without_a_final_observation_the_value_acted_on_stands_in():
    ppo = make(gamma=0.9)
    ppo.act(torch.randn(N, D), torch.randn(N, C))
    ppo.process_env_step(torch.zeros(N), torch.ones(N), {"time_outs": torch.ones(N, 1)})
    for _ in range(2):  # estimating the returns again credits nothing twice
        ppo.compute_returns(torch.randn(N, C))
        torch.testing.assert_close(ppo.storage.rewards[0], 0.9 * ppo.storage.values[0])
    assert (ppo.storage.values[0] != 0).all()


@pytest.mark.parametrize("recurrent", [None, "gru", "lstm"])
@pytest.mark.parametrize("normalized", [False, True])
def test_the_first_ratio_of_an_update_is_one(recurrent, normalized):
    ppo = make(recurrent, {"actor_obs_normalization": normalized, "critic_obs_normalization": normalized})
    for _ in range(2):  # the second rollout meets statistics and weights that have moved
        collect(ppo)
        storage = ppo.storage
        batches = storage.reccurent_mini_batch_generator if recurrent else storage.mini_batch_generator
        for batch in batches(2, 1):
            ppo.actor_critic.update_distribution(batch.observations, batch.flow, batch.hidden_states[0])
            log_prob = ppo.actor_critic.get_actions_log_prob(batch.actions).unsqueeze(-1)
            torch.testing.assert_close(log_prob, batch.old_actions_log_prob, atol=2e-6, rtol=1e-5)
            values = ppo.actor_critic.evaluate(batch.critic_observations, batch.flow, batch.hidden_states[1])
            torch.testing.assert_close(values, batch.values, atol=1e-6, rtol=1e-5)
        ppo.update()


def test_normalisers_see_each_rollout_once_and_after_the_update():
    ppo = make(policy={"actor_obs_normalization": True})
    collect(ppo)
    assert ppo.actor_critic.actor_obs_normalizer.count == 0
    data = ppo.storage.observations.flatten(0, 1).clone()
    ppo.update()
    assert ppo.actor_critic.actor_obs_normalizer.count == T * N
    torch.testing.assert_close(ppo.actor_critic.actor_obs_normalizer.mean, data.mean(dim=0))


@pytest.mark.parametrize("recurrent", [None, "lstm"])
def test_an_update_leaves_the_rollout_as_it_was(recurrent):
    ppo = make(recurrent)
    collect(ppo)
    before = {name: column.clone() for name, column in ppo.storage._columns.items()}
    metrics = ppo.update()
    assert all(torch.equal(before[name], column) for name, column in ppo.storage._columns.items())
    assert ppo.storage.step == 0
    losses = {"surrogate_loss", "value_loss", "entropy", "kl", "learning_rate"}
    assert set(metrics) == losses | {"skipped_steps", "skipped_in_row"}


def test_gradients_of_actor_and_critic_are_clipped_apart():
    ppo = make(max_grad_norm=1e-3, num_mini_batches=1, num_learning_epochs=1)
    collect(ppo)
    ppo.update()
    named = dict(ppo.actor_critic.named_parameters())
    critic = [p for name, p in named.items() if name.startswith("critic.")]
    actor = [p for name, p in named.items() if not name.startswith("critic.")]
    for parameters in (actor, critic):
        norm = torch.stack([p.grad.norm() for p in parameters]).norm()
        assert norm.item() == pytest.approx(1e-3, rel=1e-2)


@pytest.mark.parametrize("recurrent", ["gru", "lstm"])
def test_only_acting_and_dones_move_the_memories(recurrent):
    ppo = make(recurrent)
    collect(ppo)

    def memories():
        return [s.clone() for state in ppo.actor_critic.get_hidden_states() for s in as_states(state)]

    before = memories()
    ppo.compute_returns(torch.randn(N, C))
    ppo.update()
    twin = ppo.actor_critic.snapshot()
    twin.act_inference(torch.randn(N, D))
    assert all(torch.equal(a, b) for a, b in zip(before, memories()))
    ppo.act(torch.randn(N, D), torch.randn(N, C))
    acted = memories()
    assert not any(torch.equal(a, b) for a, b in zip(before, acted))
    dones = torch.arange(N) < 3
    ppo.process_env_step(torch.zeros(N), dones, {"time_outs": dones, "final_obs": torch.randn(N, C)})
    for after, old in zip(memories(), acted):
        assert (after[:, :3] == 0).all() and torch.equal(after[:, 3:], old[:, 3:])


def test_a_fixed_schedule_keeps_the_step_size():
    ppo = make(schedule="fixed", learning_rate=3e-4)
    collect(ppo)
    assert ppo.update()["learning_rate"].item() == pytest.approx(3e-4)


def test_a_critic_that_reads_what_the_actor_reads_learns_as_from_a_copy():
    weights = []
    for critic_obs_shape in ([D], None):
        torch.manual_seed(5)
        ppo = PPO(ActorCritic(D, D, A, **NETS), num_mini_batches=2)
        ppo.init_storage(N, T, [D], critic_obs_shape, [A])
        for _ in range(T):
            obs = torch.randn(N, D)
            ppo.act(obs, obs)
            ppo.process_env_step(torch.randn(N), torch.rand(N) < 0.2, {})
        ppo.compute_returns(torch.randn(N, D))
        ppo.update()
        weights.append(list(ppo.actor_critic.parameters()))
    assert ppo.storage.privileged_observations is None
    assert all(torch.equal(a, b) for a, b in zip(*weights))


@pytest.mark.parametrize("frozen", ["std", "actor", "critic"])
def test_what_is_frozen_stays_and_the_rest_learns(frozen):
    ppo = make()
    for name, parameter in ppo.actor_critic.named_parameters():
        parameter.requires_grad_(not name.startswith(frozen))
    before = {name: p.clone() for name, p in ppo.actor_critic.named_parameters()}
    collect(ppo)
    ppo.update()
    for name, parameter in ppo.actor_critic.named_parameters():
        assert torch.equal(parameter, before[name]) == name.startswith(frozen), name


def test_a_transition_of_ones_own_is_stored_whole():
    ppo = make()
    sigma = torch.tensor([0.5, 2.0])
    fields = {name: torch.randn(N, 1) for name in ("rewards", "dones", "values", "actions_log_prob")}
    fields.update(actions=torch.randn(N, A), action_mean=torch.randn(N, A), action_sigma=sigma.expand(N, A))
    ppo.storage.add_transitions(
        ppo.storage.Transition(observations=torch.randn(N, D), critic_observations=torch.randn(N, C), **fields)
    )
    torch.testing.assert_close(ppo.storage.sigma[0], sigma.expand(N, A))
    torch.testing.assert_close(ppo.storage.mu[0], fields["action_mean"])
    assert not ppo.storage.time_outs.any()


def test_the_modes_do_what_their_names_say():
    ppo = make()
    ppo.test_mode()
    assert not ppo.actor_critic.training
    ppo.train_mode()
    assert ppo.actor_critic.training


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"gamma": 1.5}, r"gamma=1.5 must lie in \[0, 1\]"),
        ({"num_mini_batches": 0}, "num_mini_batches=0"),
        ({"schedule": "cosine"}, "schedule='cosine'; allowed: fixed, adaptive"),
        ({"clip_param": 0.0}, "clip_param=0.0 must be positive"),
        ({"entropy_coef": -1.0}, "entropy_coef=-1.0 must not be negative"),
        ({"unroll_len": -1}, "unroll_len=-1"),
        ({"unroll_len": 4}, "unroll_len=4 is for policies with memory; set it to 0"),
        ({"recurrent": "gru", "unroll_len": 7}, "unroll_len=7 exceeds the 6 steps of a rollout"),
        ({"last_fn_type": "first"}, "last_fn_type='first'; allowed: last, drop, null_padding"),
        ({"burn_in": 2}, "burn_in=2 renews the memories of chunks; set unroll_len too"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        make(**settings)
