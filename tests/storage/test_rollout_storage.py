import pytest
import torch

from rsl_rl.storage import RolloutStorage
from rsl_rl.utils.trajectories import unpad

T, N = 5, 6


def filled_storage() -> RolloutStorage:
    """Every stored number tells where it belongs: 100 t + n."""
    storage = RolloutStorage(N, T, [1], [2], [3])
    for t in range(T):
        label = (100.0 * t + torch.arange(N)).unsqueeze(1)
        transition = RolloutStorage.Transition()
        transition.observations, transition.critic_observations = label, label.expand(N, 2)
        transition.actions = transition.action_mean = transition.action_sigma = label.expand(N, 3)
        transition.rewards = transition.values = transition.actions_log_prob = label.squeeze(1)
        transition.dones = torch.zeros(N, dtype=torch.bool)
        storage.add_transitions(transition)
    return storage


def test_scalars_are_stored_as_columns():
    storage = filled_storage()
    assert storage.rewards.shape == storage.values.shape == storage.dones.shape == (T, N, 1)
    assert storage.rewards[2, 3].item() == 203


def test_a_row_is_a_view_of_the_storage():
    storage = RolloutStorage(N, T, [1], [2], [3])
    row = storage.row()
    for name in ("observations", "critic_observations", "actions", "rewards", "values", "actions_log_prob"):
        getattr(row, name).fill_(7.0)
    storage.add_transitions(row)
    assert storage.step == 1
    assert (storage.observations[0] == 7).all() and (storage.observations[1] == 0).all()


def test_too_many_steps_are_refused():
    storage = filled_storage()
    with pytest.raises(OverflowError, match="clear"):
        storage.row()
    storage.clear()
    storage.row()


def test_an_incomplete_transition_names_what_is_missing():
    storage = RolloutStorage(N, T, [1], [2], [3])
    with pytest.raises(ValueError, match="observations"):
        storage.add_transitions(RolloutStorage.Transition())


@pytest.mark.parametrize("num_mini_batches", [1, 4, 7])
def test_an_epoch_of_flat_mini_batches_holds_every_step_once(num_mini_batches):
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
def test_recurrent_mini_batches_hold_whole_environments_once(num_mini_batches):
    storage = filled_storage()
    storage.dones[1, 2] = storage.dones[3, 2] = storage.dones[4, 5] = True
    storage.saved_hidden_states_a = (torch.arange(N).float().view(1, N, 1),)
    seen = []
    for batch in storage.reccurent_mini_batch_generator(num_mini_batches, num_epochs=1):
        envs = batch.values[0, :, 0].long()
        seen += envs.tolist()
        assert torch.equal(unpad(batch.observations, batch.cut), storage.observations[:, envs])
        starts = batch.observations[0, :, 0]  # first sample of each trajectory
        first_state = batch.hidden_states[0][0][0, :, 0]
        at_rollout_start = starts < 100
        assert torch.equal(first_state[at_rollout_start], starts[at_rollout_start])
        assert (first_state[~at_rollout_start] == 0).all()  # after a done the memory is empty
    assert sorted(seen) == list(range(N))


def test_more_recurrent_mini_batches_than_environments_are_refused():
    with pytest.raises(ValueError, match=f"num_envs={N}"):
        next(filled_storage().reccurent_mini_batch_generator(N + 1, 1))


def test_advantages_are_scaled_and_returns_are_not():
    storage = filled_storage()
    storage.rewards.normal_()
    storage.values.normal_()
    storage.compute_returns(torch.zeros(N, 1), gamma=0.9, lam=0.8)
    std, mean = torch.std_mean(storage.advantages)
    assert mean.item() == pytest.approx(0, abs=1e-6) and std.item() == pytest.approx(1, abs=1e-5)
    raw = storage.returns - storage.values
    torch.testing.assert_close(storage.advantages, (raw - raw.mean()) / (raw.std() + 1e-8))


def test_statistics_count_trajectories_and_rewards():
    storage = filled_storage()
    storage.dones[1, 0] = True  # one cut: N + 1 trajectories
    length, reward = storage.get_statistics()
    assert length.item() == pytest.approx(T * N / (N + 1))
    assert reward.item() == pytest.approx(storage.rewards.mean().item())
