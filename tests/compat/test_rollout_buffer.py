"""The [N, T + 1] rollout: one memory with the storage, one set of returns, and mini-batches of any attached field."""

import sys

import pytest
import torch
from rsl_rl.storage.rollout_buffer import iterate_minibatches, transition_view

from rsl_rl.compat.rollout_buffer import ENDS
from rsl_rl.storage import Column, GroupSpec, RolloutBuffer, RolloutStorage

N, T, D, A = 4, 6, 3, 2
SHAPES = {
    "obs": (N, T + 1, D), "action": (N, T + 1, A), "sample_log_prob": (N, T + 1), "value": (N, T + 1),
    "reward": (N, T + 1), "done": (N, T + 1), "terminated": (N, T + 1), "truncated": (N, T + 1),
}  # fmt: skip


@pytest.fixture(scope="module")
def tensordict(peer):
    """The package tensordict, from the folder of another trainer."""
    sys.path.append(str(peer))
    yield pytest.importorskip("tensordict")
    sys.path.remove(str(peer))


def labels(num_steps=T + 1):
    """A number for each environment and step: 100 n + t, [N, T + 1]."""
    return 100.0 * torch.arange(N).unsqueeze(1) + torch.arange(num_steps)


def write(rollout):
    """Write a rollout step by step, as a collector does; every number tells where it belongs."""
    number = labels()
    for t in range(T + 1):
        rollout["obs"][:, t] = number[:, t, None].expand(N, D)
        rollout["value"][:, t] = number[:, t]
        if t < T:
            rollout["action"][:, t] = number[:, t, None].expand(N, A)
            rollout["sample_log_prob"][:, t] = rollout["reward"][:, t] = number[:, t]
            rollout["truncated"][:, t] = torch.arange(N) == t
            rollout["terminated"][:, t] = torch.arange(N) == t - 1
            rollout["done"][:, t] = rollout["truncated"][:, t] | rollout["terminated"][:, t]
    return rollout


def filled():
    buffer = RolloutBuffer(N, T, D, A, "cpu", tensordict=False)
    buffer.add(write(buffer.start_rollout()))
    return buffer


def test_rollout_has_the_documented_fields_of_the_documented_shapes_and_types():
    rollout = RolloutBuffer(N, T, D, A, "cpu", tensordict=False).start_rollout()
    assert {name: tuple(field.shape) for name, field in rollout.items()} == SHAPES
    flags = {"done", "terminated", "truncated"}
    assert all(field.dtype == (torch.bool if name in flags else torch.float32) for name, field in rollout.items())


def test_rollout_and_storage_are_one_memory():
    buffer = filled()
    storage = buffer.storage
    assert torch.equal(storage.observations, labels(T).t().unsqueeze(-1).expand(T, N, D))
    assert torch.equal(storage.rewards, labels(T).t().unsqueeze(-1)) and storage.step == T
    storage.rewards[2, 1] = -7.0
    assert buffer.get(flatten=False)["reward"][1, 2] == -7.0


def test_storage_written_step_by_step_is_read_as_a_rollout():
    storage = RolloutStorage(N, T, {"policy": GroupSpec((D,)), "camera": GroupSpec((2, 2), torch.uint8)}, None, [A],
                             columns={"novelty": Column(1), **ENDS}, extra_step=True)  # fmt: skip
    buffer = RolloutBuffer.over(storage)
    rollout = buffer.start_rollout()
    for t in range(T):
        view = storage.current_step_view()
        view.groups["camera"].fill_(t)
        view.columns["novelty"].fill_(t)
        storage.add_transitions(view)
    buffer.write_last_obs({"policy": torch.ones(N, D), "camera": torch.full((N, 2, 2), 9)})
    assert rollout["camera"].shape == (N, T + 1, 2, 2) and rollout["camera"][0, :, 0, 0].tolist() == [*range(T), 9]
    assert rollout["novelty"].shape == (N, T + 1, 1) and (rollout["obs"][:, -1] == 1).all()


def test_group_with_the_name_of_a_field_raises():
    storage = RolloutStorage(N, T, {"reward": GroupSpec((D,))}, None, [A], columns=ENDS, extra_step=True)
    with pytest.raises(ValueError, match="an observation group is called 'reward', which is a field"):
        RolloutBuffer.over(storage)


def test_get_flat_returns_the_transitions_without_the_last_step():
    flat = filled().get()
    assert {name: tuple(field.shape) for name, field in flat.items()} == {
        name: (N * T, *shape[2:]) for name, shape in SHAPES.items()
    }
    assert torch.equal(flat["reward"], labels(T).flatten()) and torch.equal(flat["obs"][:, 0], flat["reward"])


def test_transition_view_keeps_environments_and_steps_apart_and_copies_nothing():
    buffer = filled()
    rollout = buffer.get(flatten=False)
    rollout["my_field"] = labels() + 0.5
    view = transition_view(rollout)
    assert torch.equal(view["my_field"], labels(T) + 0.5)
    assert view["action"].shape == (N, T, A) and view["action"].data_ptr() == rollout["action"].data_ptr()
    assert buffer.transition_view(rollout, flatten=True)["my_field"].shape == (N * T,)


@pytest.mark.parametrize("batch_size", [1, 5, 24, 100])
def test_iterate_minibatches_yields_every_transition_once_with_all_its_fields(batch_size):
    buffer = filled()
    buffer.get(flatten=False)["my_field"] = labels().unsqueeze(-1) + 0.5
    batches = list(buffer.iterate_minibatches(batch_size))
    assert [len(batch["reward"]) for batch in batches[:-1]] == [batch_size] * (len(batches) - 1)
    seen = torch.cat([batch["reward"] for batch in batches])
    assert sorted(seen.tolist()) == labels(T).flatten().tolist()
    for batch in batches:
        assert torch.equal(batch["obs"][:, 0], batch["reward"]) and torch.equal(batch["value"], batch["reward"])
        assert torch.equal(batch["my_field"][:, 0], batch["reward"] + 0.5)
        assert torch.equal(batch["truncated"], batch["reward"] % 100 == batch["reward"] // 100)
    again = torch.cat([batch["reward"] for batch in buffer.iterate_minibatches(batch_size)])
    assert not torch.equal(seen, again)


def test_iterate_minibatches_of_wrong_arguments_raises():
    buffer = filled()
    with pytest.raises(ValueError, match=r"shape \[4, 7\]; flatten the rollout by transition_view"):
        next(iterate_minibatches(buffer.rollout, 4))
    with pytest.raises(ValueError, match="batch_size=0"):
        next(buffer.iterate_minibatches(0))


def test_compute_returns_equals_a_loop_that_bootstraps_truncated_episodes_and_the_end():
    buffer = filled()
    rollout, gamma, lam = buffer.get(flatten=False), 0.9, 0.8
    for name in ("reward", "value"):
        rollout[name].normal_()
    final = torch.randn(N, T)
    before = {name: field.clone() for name, field in rollout.items()}
    buffer.compute_returns(gamma, lam, normalize=False, final_values=final)
    for n in range(N):
        advantage = 0.0
        for t in reversed(range(T)):
            going = not before["done"][n, t]
            follows = final[n, t] if before["truncated"][n, t] else before["value"][n, t + 1] * going
            error = before["reward"][n, t] + gamma * follows - before["value"][n, t]
            advantage = error + gamma * lam * going * advantage
            torch.testing.assert_close(rollout["advantage"][n, t], torch.as_tensor(advantage))
            torch.testing.assert_close(rollout["return"][n, t], advantage + before["value"][n, t])
    assert all(torch.equal(rollout[name], field) for name, field in before.items())
    assert torch.equal(buffer.storage.advantages.squeeze(-1).t(), rollout["advantage"][:, :-1])
    assert {"advantage", "return"} <= set(next(buffer.iterate_minibatches(8)))


def test_attached_fields_reach_the_mini_batches_of_buffer_and_storage_until_the_next_rollout():
    buffer = filled()
    rollout, storage = buffer.get(flatten=False), buffer.storage
    list(storage.mini_batch_generator(2, 1))  # the memory of mini-batches is allocated before
    mask = (labels(T) % 2).float()
    buffer.attach(
        advantage=labels(T), seq_mask=mask, seq_return=labels(T) + 0.5, pair=labels(T)[..., None].repeat(1, 1, 2)
    )
    assert rollout["seq_return"].shape == (N, T + 1) and rollout["pair"].shape == (N, T + 1, 2)
    for batch in buffer.iterate_minibatches(8):
        assert torch.equal(batch["seq_return"], batch["reward"] + 0.5) and torch.equal(
            batch["advantage"], batch["reward"]
        )
    for batch in storage.mini_batch_generator(3, 1):
        number = batch.observations[:, :1]
        assert torch.equal(batch.columns["seq_return"], number + 0.5) and torch.equal(batch.advantages, number)
        assert torch.equal(batch.sample_mask, number % 2) and torch.equal(batch.columns["pair"], number.expand(-1, 2))
    assert set(buffer.start_rollout()) == set(SHAPES) and (storage.sample_mask == 1).all()


@pytest.mark.parametrize(("name", "shape"), [("reward", (N, T)), ("mine", (N + 1, T)), ("mine", (N,))])
def test_attach_of_a_taken_name_or_another_shape_raises(name, shape):
    with pytest.raises(ValueError, match=f"the field '{name}' .* cannot be attached; take another name than obs"):
        filled().attach(**{name: torch.zeros(shape)})


def test_add_of_another_mapping_copies_it_into_the_memory():
    buffer = RolloutBuffer(N, T, D, A, tensordict=False)
    own = {name: torch.zeros(shape, dtype=buffer.rollout[name].dtype) for name, shape in SHAPES.items()}
    write(own)["mine"] = labels()
    buffer.add(own)
    rollout = buffer.get(flatten=False)
    assert torch.equal(buffer.storage.rewards[..., 0], labels(T).t()) and torch.equal(rollout["mine"], labels())
    own["reward"].zero_()
    assert torch.equal(rollout["reward"][:, :T], labels(T))


def test_add_copies_fields_that_were_replaced():
    buffer = RolloutBuffer(N, T, D, A, tensordict=False)
    rollout = write(buffer.start_rollout())
    rollout["reward"] = torch.full((N, T + 1), 3.0)
    buffer.add(rollout)
    assert (buffer.storage.rewards == 3).all() and rollout["reward"].data_ptr() == buffer.storage.rewards.data_ptr()


def test_add_of_an_incomplete_rollout_raises():
    buffer = RolloutBuffer(N, T, D, A, tensordict=False)
    with pytest.raises(ValueError, match="the rollout has no 'action'; give obs, action, "):
        buffer.add({"obs": torch.zeros(N, T + 1, D)})
    with pytest.raises(ValueError, match=r"rollout\['obs'\] has the shape \[4, 6, 3\]; give \[4, 7, 3\]"):
        buffer.add({"obs": torch.zeros(N, T, D)})


def test_a_rollout_is_read_once_and_before_the_next_starts():
    buffer = filled()
    with pytest.raises(RuntimeError, match="call get"):
        buffer.start_rollout()
    buffer.get()
    with pytest.raises(RuntimeError, match="no complete rollout"):
        buffer.get()
    assert (buffer.start_rollout()["reward"][:, -1] == 0).all()


def test_start_rollout_clears_the_padding_and_not_the_last_observation():
    buffer = RolloutBuffer(N, T, D, A, tensordict=False)
    rollout = buffer.start_rollout()
    for field in rollout.values():
        field.fill_(1)
    buffer.start_rollout()
    assert {name for name, field in rollout.items() if field[:, -1].any()} == {"obs", "value"}
    assert all(field[:, :-1].all() for field in rollout.values())


# TensorDicts


def test_tensordict_is_the_default_where_the_package_is_installed(tensordict):
    rollout = RolloutBuffer(N, T, D, A).start_rollout()
    assert isinstance(rollout, tensordict.TensorDict) and rollout.batch_size == (N, T + 1)


def test_tensordict_in_and_out_is_the_memory_of_the_storage(tensordict):
    buffer = RolloutBuffer(N, T, D, A, "cpu", tensordict=True)
    buffer.add(write(buffer.start_rollout()))
    assert torch.equal(buffer.storage.rewards[..., 0], labels(T).t())
    rollout = buffer.get(flatten=False)
    rollout["advantage"] = labels() + 0.5
    buffer.attach(seq_return=labels(T))
    flat = transition_view(rollout, flatten=True)
    assert isinstance(flat, tensordict.TensorDict) and flat.batch_size == (N * T,)
    batches = list(iterate_minibatches(flat, 7, "cpu"))
    assert all(isinstance(batch, tensordict.TensorDict) for batch in batches) and batches[-1].batch_size == (3,)
    for batch in batches:
        assert torch.equal(batch["advantage"], batch["reward"] + 0.5)
        assert torch.equal(batch["seq_return"], batch["reward"])


def test_add_of_a_clone_of_a_tensordict_copies_it(tensordict):
    buffer = RolloutBuffer(N, T, D, A, tensordict=False)  # TensorDict in, dict out
    given = tensordict.TensorDict(
        {name: torch.zeros(shape, dtype=buffer.rollout[name].dtype) for name, shape in SHAPES.items()}, [N, T + 1]
    )
    buffer.add(write(given).clone())
    assert type(buffer.rollout) is dict and torch.equal(buffer.storage.values[..., 0], labels(T).t())
