"""Mini-batches of a rollout, of steps or of sequences, and the chunks of sequences."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rsl_rl.storage.mini_batches import LazyGroups, gather_chunks, plan_chunks, weighted_mean
from rsl_rl.storage.rollout import Column, GroupSpec, RolloutStorage

T, N = 5, 6


def labelled(sequences=False, plan=None) -> RolloutStorage:
    """Every stored number tells where it belongs: 100 t + n; so do the actor's memories, before each step."""
    groups = {"policy": GroupSpec((1,)), "camera": GroupSpec((2, 3), torch.int16)}
    columns = {"action_std": Column(3, shared=True), "skill": Column(1, torch.int64)}
    storage = RolloutStorage(N, T, groups, 3, columns, plan=plan, sequences=sequences)
    for t in range(T):
        label = (100.0 * t + torch.arange(N)).unsqueeze(1)
        obs = {"policy": label, "camera": label.view(N, 1, 1).expand(N, 2, 3)}
        row = storage.begin_step(obs, (label.expand(N, 4).unsqueeze(0), None))
        for name in ("actions", "values", "advantages", "returns", "actions_log_prob", "rewards", "skill"):
            row.columns[name].copy_(label)
        storage.step += 1
    storage.columns["action_std"].copy_(torch.tensor([1.0, 2.0, 3.0]))
    return storage


def batches_of(storage, num_mini_batches, num_epochs):
    return [storage.batches.gather(indices) for indices in storage.batches.shuffled(num_mini_batches, num_epochs)]


IN_BATCHES = {"actions", "values", "advantages", "returns", "actions_log_prob", "sample_mask", "action_std", "skill"}


@pytest.mark.parametrize("num_mini_batches", [1, 4, 7])
def test_step_batches_hold_every_step_once_per_epoch_with_all_its_data(num_mini_batches):
    storage = labelled()
    batches = batches_of(storage, num_mini_batches, 2)
    assert len(batches) == 2 * num_mini_batches
    orders = []
    for epoch in (batches[:num_mini_batches], batches[num_mini_batches:]):
        orders.append(torch.cat([batch.groups["policy"] for batch in epoch]).flatten().tolist())
        assert sorted(orders[-1]) == sorted(storage.groups["policy"].flatten().tolist())
        for batch in epoch:
            label = batch.groups["policy"]
            assert set(batch.columns) == IN_BATCHES and set(batch.groups) == {"policy", "camera"}
            for name in ("actions", "values", "advantages", "returns", "actions_log_prob", "skill"):
                column = batch.columns[name]
                assert column.dtype == storage.columns[name].dtype
                assert torch.equal(column, label.expand_as(column).to(column.dtype)), name
            camera = batch.groups["camera"]
            assert camera.dtype == torch.int16 and torch.equal(camera, label.view(-1, 1, 1).expand(-1, 2, 3).short())
            assert batch.columns["action_std"].tolist() == [1, 2, 3]  # stored once
            assert batch.masks is None and batch.envs is None and (batch.sample_mask == 1).all()
    assert orders[0] != orders[1]  # each epoch has an order of its own


@pytest.mark.parametrize("num_mini_batches", [1, 4])
def test_sequence_batches_hold_every_environment_once_per_epoch(num_mini_batches):
    storage = labelled(sequences=True)
    dones = storage.columns["dones"]
    dones[1, 2] = dones[3, 2] = dones[4, 5] = True
    batches = batches_of(storage, num_mini_batches, 2)
    orders = []
    for epoch in (batches[:num_mini_batches], batches[num_mini_batches:]):
        orders.append([])
        for batch in epoch:
            envs = batch.envs
            orders[-1] += envs.tolist()
            for name, group in batch.groups.items():
                assert group.dtype == storage.groups[name].dtype and torch.equal(group, storage.groups[name][:, envs])
            assert set(batch.columns) == IN_BATCHES and batch.columns["action_std"].tolist() == [1, 2, 3]
            for name in IN_BATCHES - {"action_std"}:
                assert torch.equal(batch.columns[name], storage.columns[name][:, envs]), name
            assert torch.equal(batch.masks.keep_state[1:], 1.0 - dones[:-1, envs, 0].float())
            assert (batch.masks.keep_state[0] == 1).all()
            assert torch.equal(batch.masks.keep_gradient, batch.masks.keep_state)
            (h,), critic = batch.hidden_states
            assert h.shape == (1, len(envs), 4) and torch.equal(h[0, :, 0], envs.float()) and critic == ()
        assert sorted(orders[-1]) == list(range(N))
    assert orders[0] != orders[1]


def test_sequence_batches_with_chunks_start_them_with_saved_states_and_masks():
    storage = labelled(True, plan_chunks(T, 3, "null_padding", burn_in=1))  # chunks 0-2 and, after step 2, 3-4
    (batch,) = batches_of(storage, 1, 1)
    labels = batch.groups["policy"][..., 0].view(4, 2, N)
    assert (labels // 100)[:, 0, 0].tolist() == [0, 1, 2, 3] and (labels // 100)[:3, 1, 0].tolist() == [2, 3, 4]
    (h,), _ = batch.hidden_states
    assert torch.equal(h[0, :, 0], labels[0].flatten())
    assert batch.sample_mask.view(4, 2, N)[:, :, 0].t().tolist() == [[1, 1, 1, 0], [0, 1, 1, 0]]
    assert batch.masks.keep_gradient.view(4, 2, N)[:, :, 0].t().tolist() == [[1, 1, 1, 1], [1, 0, 1, 1]]
    assert (batch.masks.keep_state == 1).all()
    assert batch.sample_mask.sum().item() == T * N  # every step once


@pytest.mark.parametrize("plan", [None, plan_chunks(T, 3, "last", burn_in=1)], ids=["whole", "chunks"])
@pytest.mark.parametrize("sequences", [False, True], ids=["steps", "sequences"])
def test_total_weight_is_the_sum_of_the_sample_mask(sequences, plan):
    storage = labelled(sequences, plan)
    storage.columns["sample_mask"].copy_(torch.rand(T, N, 1) < 0.6)
    for indices in storage.batches.shuffled(3, 1):
        weight = storage.batches.total_weight(indices)
        assert weight == storage.batches.gather(indices).sample_mask.sum() > 0


def test_more_mini_batches_than_environments_of_sequences_raises():
    with pytest.raises(ValueError, match=f"num_envs={N}"):
        batches_of(labelled(sequences=True), N + 1, 1)


def test_lazy_groups_are_computed_when_they_are_first_read():
    read = []
    groups = LazyGroups({"a": torch.ones(2), "b": torch.zeros(2)}, lambda name, x: read.append(name) or x + 1)
    assert len(groups) == 2 and list(groups) == ["a", "b"] and read == []
    assert groups["a"] is groups["a"] and groups["a"].tolist() == [2, 2] and read == ["a"]


def test_weighted_mean_is_that_of_the_unmasked_samples_and_zero_without_any():
    x = torch.tensor([[1.0], [3.0], [100.0]])
    assert weighted_mean(x, torch.tensor([[1.0], [1.0], [0.0]])) == 2.0
    assert weighted_mean(x, torch.zeros(3, 1)) == 0.0


# Chunks


def shown(plan):
    """The steps each chunk shows, None for padding."""
    return [
        [step if real else None for step, real in zip(steps, reals)]
        for steps, reals in zip(plan.steps.t().tolist(), plan.real.t().tolist())
    ]


@pytest.mark.parametrize(
    ("residue", "chunks"),
    [
        ("drop", [[0, 1, 2], [3, 4, 5]]),
        ("last", [[0, 1, 2], [3, 4, 5], [5, 6, 7]]),
        ("null_padding", [[0, 1, 2], [3, 4, 5], [6, 7, None]]),
    ],
)
def test_plan_chunks_with_a_residue_drops_overlaps_or_pads_it(residue, chunks):
    plan = plan_chunks(8, 3, residue)
    assert shown(plan) == chunks
    assert torch.equal(plan.learned, plan.real) and not plan.cut.any()


@pytest.mark.parametrize("residue", ["last", "null_padding"])
def test_plan_chunks_of_a_short_rollout_pads_it(residue):
    assert shown(plan_chunks(2, 3, residue)) == [[0, 1, None]]
    assert shown(plan_chunks(2, 3, "drop")) == []


def test_plan_chunks_with_burn_in_shows_earlier_steps_without_learning():
    plan = plan_chunks(8, 3, "null_padding", burn_in=2)
    assert plan.begins == (0, 1, 4)
    assert shown(plan) == [[0, 1, 2, 3, 4], [1, 2, 3, 4, 5], [4, 5, 6, 7, None]]
    learned = [[s for s, yes in zip(steps, mask) if yes] for steps, mask in zip(shown(plan), plan.learned.t().tolist())]
    assert learned == [[0, 1, 2], [3, 4, 5], [6, 7]]
    cuts = [[s for s, yes in zip(steps, mask) if yes] for steps, mask in zip(shown(plan), plan.cut.t().tolist())]
    assert cuts == [[], [3], [6]]  # nothing was burnt in before the first chunk


@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 10))
def test_plan_chunks_with_padding_learns_from_every_step_once(num_steps, unroll_len, burn_in):
    plan = plan_chunks(num_steps, unroll_len, "null_padding", burn_in)
    assert sorted(plan.steps[plan.learned].tolist()) == list(range(num_steps))
    num_chunks = -(-num_steps // unroll_len)
    assert plan.steps.shape == (unroll_len + min(burn_in, (num_chunks - 1) * unroll_len), num_chunks)
    assert (plan.learned.sum(dim=0) > 0).all()


@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 10))
def test_plan_chunks_with_last_learns_from_every_step_and_fills_every_chunk(num_steps, unroll_len, burn_in):
    plan = plan_chunks(num_steps, unroll_len, "last", burn_in)
    assert set(plan.steps[plan.learned].tolist()) == set(range(num_steps))
    assert (plan.learned.sum(dim=0) == min(unroll_len, num_steps)).all()


def test_gather_chunks_of_some_environments_places_them_side_by_side():
    rollout = (100 * torch.arange(5).unsqueeze(1) + torch.arange(4)).unsqueeze(-1)  # 100 t + n
    plan = plan_chunks(5, 2, "drop")
    assert gather_chunks(rollout, plan, torch.tensor([3, 1]))[..., 0].tolist() == [
        [3, 1, 203, 201],
        [103, 101, 303, 301],
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((8, 0), "unroll_len=0"),
        ((8, 2, "last", -1), "burn_in=-1"),
        ((8, 2, "first"), "last_fn_type='first'; allowed: last, drop, null_padding"),
    ],
)
def test_plan_chunks_with_invalid_arguments_raises(arguments, words):
    with pytest.raises(ValueError, match=words):
        plan_chunks(*arguments)
