"""The rollout with the constructor, names and mini-batches of rsl_rl 1 to 3."""

import pytest
import torch

from rsl_rl.algorithms import PPO
from rsl_rl.modules import ActorCritic
from rsl_rl.storage import GroupSpec, RolloutStorage

T, N = 5, 6


def filled_storage() -> RolloutStorage:
    """Every stored number tells where it belongs: 100 t + n; so do the actor's memories, before each step."""
    storage = RolloutStorage(N, T, [1], [2], [3])
    for t in range(T):
        label = (100.0 * t + torch.arange(N)).unsqueeze(1)
        transition = RolloutStorage.Transition()
        transition.observations, transition.critic_observations = label, label.expand(N, 2)
        transition.actions = transition.action_mean = transition.action_sigma = label.expand(N, 3)
        transition.rewards = transition.values = transition.actions_log_prob = label.squeeze(1)
        transition.dones = torch.zeros(N, dtype=torch.bool)
        transition.hidden_states = (label.expand(N, 4).unsqueeze(0), None)
        storage.add_transitions(transition)
    return storage


def test_storage_of_scalars_has_a_last_dimension_of_one():
    storage = filled_storage()
    assert storage.rewards.shape == storage.values.shape == storage.dones.shape == (T, N, 1)
    assert storage.rewards[2, 3].item() == 203


def test_current_step_view_writes_into_the_storage():
    storage = RolloutStorage(N, T, [1], [2], [3])
    row = storage.current_step_view()
    for name in ("observations", "critic_observations", "actions", "rewards", "values", "actions_log_prob"):
        getattr(row, name).fill_(7.0)
    storage.add_transitions(row)
    assert storage.step == 1
    assert (storage.observations[0] == 7).all() and (storage.observations[1] == 0).all()


def test_current_step_view_of_a_full_rollout_raises():
    storage = filled_storage()
    with pytest.raises(OverflowError, match="clear"):
        storage.current_step_view()
    storage.clear()
    storage.current_step_view()


def test_clear_resets_time_outs_and_sample_mask():
    """Time-outs not yet credited, of a rollout that was not finished, and masked steps."""
    storage = filled_storage()
    storage.clear()
    first = storage.current_step_view()
    first.time_outs.fill_(True)
    first.sample_mask.fill_(0.0)
    storage.add_transitions(first)
    storage.clear()
    storage.add_transitions(storage.current_step_view())
    assert not storage.time_outs.any() and (storage.sample_mask == 1.0).all()


def test_add_transitions_with_a_missing_field_raises_and_names_it():
    storage = RolloutStorage(N, T, [1], [2], [3])
    with pytest.raises(ValueError, match="no policy"):
        storage.add_transitions(RolloutStorage.Transition())


@pytest.mark.parametrize("num_mini_batches", [1, 4, 7])
def test_mini_batch_generator_yields_every_step_once_per_epoch(num_mini_batches):
    storage = filled_storage()
    batches = list(storage.mini_batch_generator(num_mini_batches, num_epochs=2))
    assert len(batches) == 2 * num_mini_batches
    for epoch in (batches[:num_mini_batches], batches[num_mini_batches:]):
        labels = torch.cat([batch.observations for batch in epoch]).flatten()
        assert sorted(labels.tolist()) == sorted(storage.observations.flatten().tolist())
        for batch in epoch:  # fields stay together
            assert torch.equal(batch.observations, batch.values)
            assert torch.equal(batch.observations.expand(-1, 3), batch.actions)
    first, second = (
        torch.cat([b.observations for b in batches[i : i + num_mini_batches]]) for i in (0, num_mini_batches)
    )
    assert not torch.equal(first, second)  # each epoch has an order of its own


@pytest.mark.parametrize("num_mini_batches", [1, 4])
def test_recurrent_generator_yields_every_environment_once_per_epoch(num_mini_batches):
    storage = filled_storage()
    storage.dones[1, 2] = storage.dones[3, 2] = storage.dones[4, 5] = True
    batches = list(storage.reccurent_mini_batch_generator(num_mini_batches, num_epochs=2))
    epochs = batches[:num_mini_batches], batches[num_mini_batches:]
    orders = []
    for epoch in epochs:
        orders.append([])
        for batch in epoch:
            envs = batch.values[0, :, 0].long()
            orders[-1] += envs.tolist()
            assert torch.equal(batch.observations, storage.observations[:, envs])
            assert torch.equal(batch.masks.keep_state[1:], 1.0 - storage.dones[:-1, envs, 0].float())
            assert (
                torch.equal(batch.masks.keep_gradient, batch.masks.keep_state)
                and (batch.masks.keep_state[0] == 1).all()
            )
            (h,), critic = batch.hidden_states
            assert h.shape == (1, len(envs), 4) and torch.equal(h[0, :, 0], envs.float()) and critic == ()
            assert (batch.sample_mask == 1).all()
        assert sorted(orders[-1]) == list(range(N))
    assert orders[0] != orders[1]


def test_add_transitions_without_hidden_states_saves_zeros():
    storage = filled_storage()
    storage.clear()
    row = storage.current_step_view()
    storage.add_transitions(row)  # without hidden states
    assert (storage.saved_hidden_states_a[0] == 0).all()


def test_recurrent_generator_with_too_many_mini_batches_raises():
    with pytest.raises(ValueError, match=f"num_envs={N}"):
        next(filled_storage().reccurent_mini_batch_generator(N + 1, 1))


def test_compute_returns_normalizes_advantages_and_not_returns():
    storage = filled_storage()
    storage.rewards.normal_()
    storage.values.normal_()
    storage.compute_returns(torch.zeros(N, 1), gamma=0.9, lam=0.8)
    std, mean = torch.std_mean(storage.advantages)
    assert mean.item() == pytest.approx(0, abs=1e-6) and std.item() == pytest.approx(1, abs=1e-5)
    raw = storage.returns - storage.values
    torch.testing.assert_close(storage.advantages, (raw - raw.mean()) / (raw.std() + 1e-8))


def test_get_statistics_returns_mean_length_and_reward():
    storage = filled_storage()
    storage.dones[1, 0] = True  # one cut: N + 1 trajectories
    length, reward = storage.get_statistics()
    assert length.item() == pytest.approx(T * N / (N + 1))
    assert reward.item() == pytest.approx(storage.rewards.mean().item())


def test_add_transitions_with_hidden_states_none_saves_zeros_after_those_of_before():
    storage = filled_storage()
    assert (storage.saved_hidden_states_a[0] != 0).any() and storage.saved_hidden_states_c == ()
    storage.clear()
    label = torch.ones(N, 1)
    fields = {name: label for name in ("rewards", "dones", "values", "actions_log_prob")}
    wide = {name: label.expand(N, 3) for name in ("actions", "action_mean", "action_std")}
    transition = RolloutStorage.Transition(observations=label, critic_observations=label.expand(N, 2), **fields, **wide)
    assert transition.hidden_states is None
    storage.add_transitions(transition)
    assert storage.step == 1 and (storage.saved_hidden_states_a[0] == 0).all()
    assert (storage.rewards[0] == 1).all() and storage.dones[0].all() and storage.dones.dtype == torch.bool


def test_transition_with_an_unknown_name_raises():
    with pytest.raises(TypeError, match="a transition has no 'reward'; known: observations"):
        RolloutStorage.Transition(reward=torch.zeros(N))
    transition = RolloutStorage.Transition(action_sigma=torch.ones(N, 3))
    assert transition.action_std is transition.action_sigma is transition.columns["action_std"]
    assert transition.rewards is None
    transition.clear()
    assert transition.action_std is None


@pytest.mark.parametrize("critic_obs_shape", [None, [4]])
def test_group_read_by_actor_and_critic_is_stored_once(critic_obs_shape):
    ppo = PPO(ActorCritic(4, 4, 2, actor_hidden_dims=(8,), critic_hidden_dims=(8,)), num_mini_batches=1)
    ppo.init_storage(N, T, [4], critic_obs_shape, [2])
    assert list(ppo.storage.groups) == ["policy"] + ["critic"] * (critic_obs_shape is not None)
    assert ppo.storage.critic_observations is ppo.storage.groups["policy" if critic_obs_shape is None else "critic"]


def test_columns_are_attributes_by_name():
    storage = RolloutStorage(N, T, {"policy": GroupSpec((1,))}, None, [2])
    assert storage.action_mean is storage.columns["action_mean"]
    with pytest.raises(AttributeError, match=r"has no 'novelties'; its columns are actions, .*action_std"):
        storage.novelties  # noqa: B018
    (batch,) = storage.mini_batch_generator(1, 1)
    assert batch.old_mu is batch.action_mean
    with pytest.raises(AttributeError, match="a mini-batch has no 'rewards'; its columns are actions, "):
        batch.rewards  # noqa: B018
