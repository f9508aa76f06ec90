import pytest
import torch

from rsl_rl.storage import RolloutStorage
from rsl_rl.storage.unrolling import plan_unrolling

T, N = 5, 6


def filled_storage(unrolling=None) -> RolloutStorage:
    """Every stored number tells where it belongs: 100 t + n; so do the actor's memories, before each step."""
    storage = RolloutStorage(N, T, [1], [2], [3], unrolling=unrolling)
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


def test_what_a_rollout_was_told_of_its_steps_ends_with_it():
    """Time-outs not yet credited, of a rollout that was given up, and steps without weight."""
    storage = filled_storage()
    storage.clear()
    first = storage.row()
    first.time_outs.fill_(True)
    first.weights.fill_(0.0)
    storage.add_transitions(first)
    storage.clear()
    storage.add_transitions(storage.row())
    assert not storage.time_outs.any() and (storage.weights == 1.0).all()


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
def test_recurrent_mini_batches_hold_whole_environments_once_and_shuffled(num_mini_batches):
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
            assert torch.equal(batch.flow.keep[1:], 1.0 - storage.dones[:-1, envs, 0].float())
            assert torch.equal(batch.flow.carry, batch.flow.keep) and (batch.flow.keep[0] == 1).all()
            (h,), critic = batch.hidden_states
            assert h.shape == (1, len(envs), 4) and torch.equal(h[0, :, 0], envs.float()) and critic == ()
            assert (batch.weights == 1).all()
        assert sorted(orders[-1]) == list(range(N))
    assert orders[0] != orders[1]


def test_chunks_begin_with_the_memories_of_their_first_step_and_learn_where_they_should():
    storage = filled_storage(plan_unrolling(T, 3, "null_padding", burn_in=1))  # chunks 0-2 and, after step 2, 3-4
    (batch,) = storage.reccurent_mini_batch_generator(1, 1)
    labels = batch.observations[..., 0].view(4, 2, N)
    assert (labels // 100)[:, 0, 0].tolist() == [0, 1, 2, 3] and (labels // 100)[:3, 1, 0].tolist() == [2, 3, 4]
    (h,), _ = batch.hidden_states
    assert torch.equal(h[0, :, 0], labels[0].flatten())
    assert batch.weights.view(4, 2, N)[:, :, 0].t().tolist() == [[1, 1, 1, 0], [0, 1, 1, 0]]
    assert batch.flow.carry.view(4, 2, N)[:, :, 0].t().tolist() == [[1, 1, 1, 1], [1, 0, 1, 1]]
    assert (batch.flow.keep == 1).all()
    assert batch.weights.sum().item() == T * N  # every step once


def test_a_policy_that_forgot_everything_begins_from_zeros():
    storage = filled_storage()
    storage.clear()
    row = storage.row()
    storage.add_transitions(row)  # without hidden states
    assert (storage.saved_hidden_states_a[0] == 0).all()


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
