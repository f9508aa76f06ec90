"""The rollout: what is written step by step is kept as it was given."""

import pytest
import torch

from rsl_rl.storage.mini_batches import plan_chunks
from rsl_rl.storage.rollout import Column, GroupSpec, RolloutStorage

T, N, A = 5, 6, 2

GROUPS = {
    "policy": GroupSpec((3,)),
    "camera": GroupSpec((2, 4, 5), torch.uint8),
    "heights": GroupSpec((4, 5)),
    "terrain": GroupSpec((1,), torch.int64),
    "flag": GroupSpec((), torch.bool),
}
COLUMNS = {
    "action_mean": Column(A),
    "action_std": Column(A, shared=True),
    "novelty": Column(1),
    "skill": Column(3, torch.int64),
}


def draw(dtype, *shape):
    if dtype.is_floating_point:
        return torch.randn(shape).to(dtype)
    if dtype == torch.bool:
        return torch.rand(shape) < 0.5
    return torch.randint(0, 256 if dtype == torch.uint8 else 2**40, shape, dtype=dtype)


def filled(sequences=False, plan=None, states=(None, None)):
    """Store random groups and columns; return the storage and what was given to it, [T, N, ...] by name.

    ``states`` are those of actor and critic before the first step; each step adds 1.
    """
    storage = RolloutStorage(N, T, GROUPS, A, COLUMNS, plan=plan, sequences=sequences)
    groups = {name: draw(dtype, T, N, *shape) for name, (shape, dtype) in GROUPS.items()}
    columns = {name: draw(column.dtype, *column.shape) for name, column in storage.columns.items()}
    columns["sample_mask"].fill_(1.0)
    for t in range(T):
        obs = {name: group[t] for name, group in groups.items()}
        row = storage.begin_step(obs, tuple(None if state is None else state + t for state in states))
        for name, column in row.columns.items():
            column.copy_(columns[name] if name == "action_std" else columns[name][t])
        storage.step += 1
    return storage, groups, columns


def test_storage_keeps_groups_and_columns_of_any_shape_and_dtype_bit_for_bit():
    storage, groups, columns = filled()
    assert list(storage.groups) == list(GROUPS) and set(COLUMNS) <= set(storage.columns)
    for stored, given in ((storage.groups, groups), (storage.columns, columns)):
        for name, x in given.items():
            assert stored[name].dtype == x.dtype and torch.equal(stored[name], x), name


def test_spec_of_a_float64_group_stores_float32():
    assert GroupSpec.of(torch.zeros(N, 3, dtype=torch.float64)) == GroupSpec((3,), torch.float32)
    assert GroupSpec.of(torch.zeros(N, 2, 4, 5, dtype=torch.uint8)) == GROUPS["camera"]


def test_begin_step_stores_observations_before_the_environment_refreshes_them():
    storage, obs = RolloutStorage(N, T, {"policy": GroupSpec((1,))}, A, {}), torch.zeros(N, 1)
    for t in range(T):
        obs.fill_(t)
        storage.begin_step({"policy": obs, "unread": obs}, (None, None))
        obs.fill_(-1.0)
        storage.step += 1
    assert storage.groups["policy"][:, 0, 0].tolist() == list(range(T))


def test_begin_step_of_a_full_rollout_raises():
    storage, groups, _ = filled()
    obs = {name: group[0] for name, group in groups.items()}
    with pytest.raises(OverflowError, match=r"already has 5 steps; call clear\(\)"):
        storage.begin_step(obs, (None, None))
    storage.clear()
    storage.begin_step(obs, (None, None))


def test_clear_resets_time_outs_and_sample_mask():
    """Time-outs not yet credited, of a rollout that was not finished, and masked steps."""
    storage, _, _ = filled()
    storage.columns["sample_mask"][1] = 0.0
    storage.columns["time_outs"].fill_(True)
    storage.clear()
    assert storage.step == 0
    assert not storage.columns["time_outs"].any() and (storage.columns["sample_mask"] == 1.0).all()


def test_recurrent_states_are_saved_where_chunks_begin():
    plan = plan_chunks(T, 3, "null_padding", burn_in=1)
    actor = 10.0 * torch.rand(2, N, 4)
    storage, _, _ = filled(plan=plan, states=(actor, None))
    (saved,), critic = storage.saved_states
    assert plan.begins == (0, 2) and critic == ()
    assert torch.equal(saved, torch.stack((actor, actor + 2)))


def test_recurrent_states_of_none_are_saved_as_zeros_after_those_of_before():
    storage, groups, _ = filled(states=(torch.ones(1, N, 4), torch.ones(1, N, 4)))
    storage.clear()
    storage.begin_step({name: group[0] for name, group in groups.items()}, (None, torch.ones(1, N, 4)))
    (actor,), (critic,) = storage.saved_states
    assert (actor == 0).all() and (critic == 1).all()
