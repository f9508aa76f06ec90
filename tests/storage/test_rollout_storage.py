import pytest
import torch

from rsl_rl.algorithms import PPO
from rsl_rl.modules import ActorCritic
from rsl_rl.storage import Column, GroupSpec, RolloutStorage
from rsl_rl.storage.mini_batches import plan_chunks

T, N = 5, 6


def filled_storage(plan=None) -> RolloutStorage:
    """Every stored number tells where it belongs: 100 t + n; so do the actor's memories, before each step."""
    storage = RolloutStorage(N, T, [1], [2], [3], plan=plan)
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


def test_recurrent_generator_with_chunks_starts_them_with_saved_states_and_masks():
    storage = filled_storage(plan_chunks(T, 3, "null_padding", burn_in=1))  # chunks 0-2 and, after step 2, 3-4
    (batch,) = storage.reccurent_mini_batch_generator(1, 1)
    labels = batch.observations[..., 0].view(4, 2, N)
    assert (labels // 100)[:, 0, 0].tolist() == [0, 1, 2, 3] and (labels // 100)[:3, 1, 0].tolist() == [2, 3, 4]
    (h,), _ = batch.hidden_states
    assert torch.equal(h[0, :, 0], labels[0].flatten())
    assert batch.sample_mask.view(4, 2, N)[:, :, 0].t().tolist() == [[1, 1, 1, 0], [0, 1, 1, 0]]
    assert batch.masks.keep_gradient.view(4, 2, N)[:, :, 0].t().tolist() == [[1, 1, 1, 1], [1, 0, 1, 1]]
    assert (batch.masks.keep_state == 1).all()
    assert batch.sample_mask.sum().item() == T * N  # every step once


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


# Named groups and declared columns

GROUPS = {
    "policy": GroupSpec((3,)),
    "camera": GroupSpec((2, 4, 5), torch.uint8),
    "heights": GroupSpec((4, 5)),
    "terrain": GroupSpec((1,), torch.int64),
    "flag": GroupSpec((), torch.bool),
}
COLUMNS = {
    "action_mean": Column(2),
    "action_std": Column(2, shared=True),
    "novelty": Column(1),
    "skill": Column(3, torch.int64),
}


def draw(dtype, *shape):
    if dtype.is_floating_point:
        return torch.randn(shape).to(dtype)
    if dtype == torch.bool:
        return torch.rand(shape) < 0.5
    return torch.randint(0, 256 if dtype == torch.uint8 else 2**40, shape, dtype=dtype)


def fill_groups(sequences=False):
    """Store random groups and columns; return the storage and what was given to it, [T, N, ...] by name."""
    storage = RolloutStorage(N, T, GROUPS, None, [2], columns=COLUMNS, sequences=sequences)
    given = {name: draw(dtype, T, N, *shape) for name, (shape, dtype) in GROUPS.items()}
    std = torch.rand(2)
    names = ("actions", "rewards", "dones", "values", "actions_log_prob", "action_mean", "novelty", "skill")
    columns = {name: draw(storage.columns[name].dtype, *storage.columns[name].shape) for name in names}
    for t in range(T):
        row = {name: column[t] for name, column in columns.items()}
        groups = {name: group[t] for name, group in given.items()}
        storage.add_transitions(RolloutStorage.Transition(groups, {**row, "action_std": std}, hidden_states=None))
    return storage, given, {**columns, "action_std": std}


def test_storage_of_groups_keeps_any_shape_and_dtype_bit_for_bit():
    storage, given, columns = fill_groups()
    assert list(storage.groups) == list(GROUPS)
    for stored, source in ((storage.groups, given), (storage.columns, columns)):
        for name, x in source.items():
            assert stored[name].dtype == x.dtype and torch.equal(stored[name], x), name
    assert torch.equal(storage.novelty, columns["novelty"])  # every column is an attribute
    with pytest.raises(AttributeError, match=r"has no 'novelties'; its columns are actions, .*novelty"):
        storage.novelties  # noqa: B018


@pytest.mark.parametrize("sequences", [False, True], ids=["steps", "sequences"])
def test_mini_batches_hold_groups_and_declared_columns_bit_for_bit(sequences):
    storage, given, columns = fill_groups(sequences)
    # Each sample is known by its novelty, which is another number for each step.
    place = {value: index for index, value in enumerate(storage.novelty.flatten().tolist())}
    assert len(place) == T * N
    num_seen = 0
    for indices in storage.batches.shuffled(3, 1):
        batch = storage.batches.gather(indices)
        assert sorted(batch.groups) == sorted(GROUPS)
        rows = torch.tensor([place[value] for value in batch.columns["novelty"].flatten().tolist()])
        num_seen += len(rows)
        for name, x in given.items():
            got = batch.groups[name]
            assert got.dtype == x.dtype
            assert torch.equal(got.flatten(0, 1) if sequences else got, x.flatten(0, 1)[rows]), name
        for name in ("actions", "values", "action_mean", "skill"):
            got = batch.columns[name]
            assert got.dtype == columns[name].dtype
            assert torch.equal(got.flatten(0, 1) if sequences else got, columns[name].flatten(0, 1)[rows]), name
        assert torch.equal(batch.columns["action_std"], columns["action_std"])  # stored once
        assert batch.sample_mask.shape == batch.values.shape and (batch.sample_mask == 1).all()
    assert num_seen == T * N


@pytest.mark.parametrize("critic_obs_shape", [None, [4]])
def test_group_read_by_actor_and_critic_is_stored_once(critic_obs_shape):
    policy = ActorCritic(4, 4, 2, actor_hidden_dims=(8,), critic_hidden_dims=(8,))
    ppo = PPO(policy, num_mini_batches=1)
    ppo.init_storage(N, T, [4], critic_obs_shape, [2])
    assert list(ppo.storage.groups) == ["policy"] + ["critic"] * (critic_obs_shape is not None)
    assert ppo.storage.critic_observations is ppo.storage.groups["policy" if critic_obs_shape is None else "critic"]

    shared = ActorCritic(
        9, 4, 2, actor_groups=("policy", "goal"), critic_groups=("policy",), actor_hidden_dims=(8,),
        critic_hidden_dims=(8,),
    )  # fmt: skip
    ppo = PPO(shared, num_mini_batches=1)
    ppo.init_groups(N, T, {"policy": GroupSpec((4,)), "goal": GroupSpec((5,))})
    obs = {"policy": torch.randn(N, 4), "goal": torch.randn(N, 5), "unread": torch.randn(N, 7)}
    ppo.act(obs)
    assert list(ppo.storage.groups) == ["policy", "goal"]
    assert all(torch.equal(ppo.storage.groups[name][0], obs[name]) for name in ("policy", "goal"))
    (batch,) = ppo.storage.mini_batch_generator(1, 1)
    assert batch.groups["policy"] is batch.groups["policy"]  # gathered once


def test_mini_batch_groups_are_gathered_when_they_are_read():
    storage, _, _ = fill_groups()
    (batch,) = storage.mini_batch_generator(1, 1)
    assert batch.groups._computed == {} and len(batch.groups) == len(GROUPS)
    batch.groups["policy"]
    assert list(batch.groups._computed) == ["policy"]


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
