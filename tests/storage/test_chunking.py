import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rsl_rl.storage.mini_batches import gather_chunks, plan_chunks


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
    assert gather_chunks(rollout, plan).shape == (2, 8, 1)


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
