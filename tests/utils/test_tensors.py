"""Columns, checks on a CPU and first occurrences."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rsl_rl.utils.tensors import ColumnSelector, FirstOccurrence, all_within_on_cpu, none_on_cpu

KINDS, N = ("a", "b", "c"), 5


@pytest.mark.parametrize("marked, none", [([], True), ([False, False], True), ([False, True], False)])
def test_none_on_cpu_is_true_only_of_a_mask_without_marks(marked, none):
    assert none_on_cpu(torch.tensor(marked, dtype=torch.bool)) == none


@pytest.mark.parametrize(
    "numbers, limit, within",
    [
        ([3.0, -2.0], 3.0, True),
        ([3.0, -3.5], 3.0, False),
        ([3.5, -3.0], 3.0, False),
        ([math.nan, 0.0], 3.0, False),
        ([0.0, math.inf], 1e300, False),
        ([-math.inf, 0.0], math.inf, False),
        ([3e38, -3e38], 1e300, True),
        ([3e38, -3e38], math.inf, True),
    ],
)
@pytest.mark.parametrize("shape", [(2,), (1, 2), (2, 1)])
def test_all_within_on_cpu_compares_with_the_limit_and_refuses_nan(numbers, limit, within, shape):
    assert all_within_on_cpu(torch.tensor(numbers).view(shape), limit) == within


def test_checks_on_another_device_return_false():
    elsewhere = torch.zeros(2, device="meta")
    assert not all_within_on_cpu(elsewhere, 1.0) and not none_on_cpu(elsewhere.bool())


@pytest.mark.parametrize("indices", [[], [3], [0, 1, 2], [5, 6], [2, 1], [0, 2], [1, 1]])
@pytest.mark.parametrize("shape", [(4, 7), (4, 7, 3)])
def test_column_selector_of_contiguous_columns_is_a_view_and_of_others_a_copy(indices, shape):
    x = torch.randn(shape)
    picked = ColumnSelector(indices, "cpu")(x)
    assert torch.equal(picked, x[:, torch.tensor(indices, dtype=torch.long)])
    shared = picked.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert shared == (indices in ([], [3], [0, 1, 2], [5, 6]))


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.02, 0.3, 1.0]))
def test_first_occurrence_keeps_the_first_of_each_kind_as_a_loop_does(seed, rate):
    draw = torch.Generator().manual_seed(seed)
    events, expected = FirstOccurrence(KINDS, torch.device("cpu")), {}
    for step in range(6):
        masks = torch.rand(len(KINDS), N, generator=draw) < rate
        row, block = torch.rand(N, generator=draw), torch.rand(N, 2, 3, generator=draw)
        events.record(masks, step, {"row": row, "block": block})
        for kind, mask in zip(KINDS, masks):
            for n in range(N):
                if mask[n] and kind not in expected:
                    expected[kind] = (n, step, row[n], block[n])
    for kind in KINDS:
        event = events.read(kind)
        assert (event is None) == (kind not in expected)
        if event is not None:
            n, step, row, block = expected[kind]
            assert (event["environment"], event["step"], event["row"]) == (n, step, row)
            assert torch.equal(event["block"], block)
    assert events.read("another") is None
