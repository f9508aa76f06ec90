"""Random numbers, rotations, columns, first occurrences and checks on a CPU."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rsl_rl.utils.tensors import (
    ColumnSelector,
    FirstOccurrence,
    Uniform,
    all_within_on_cpu,
    from_yaw,
    none_on_cpu,
    rotate_inverse,
)

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


BOUNDS = [(-1.0, 1.0), (0.7, 1.3), (2.0, 2.0), (0.0, -3.0), (100.0, 101.0)]


def draw(num_envs, bounds=BOUNDS, seed=0):
    return Uniform(num_envs, bounds, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("num_envs", "columns"), [(1, 1), (3, 1), (7, 3), (1, 5), (4, 4)])
def test_any_number_of_numbers_can_be_drawn(num_envs, columns):
    numbers = draw(num_envs, BOUNDS[:columns])()
    assert numbers.shape == (num_envs, columns) and numbers.dtype == torch.float32


def test_columns_fill_their_bounds_evenly():
    numbers = draw(200_000)()
    for column, (low, high) in zip(numbers.unbind(dim=1), BOUNDS):
        lowest, highest = sorted((low, high))
        assert lowest <= column.min() and column.max() <= highest
        if low == high:
            assert (column == low).all()
            continue
        share = (column - low) / (high - low)
        counts = torch.histc(share, bins=20, min=0.0, max=1.0)
        # chi-squared of 19 degrees of freedom: beyond 43.8 once in a thousand times; the seed is fixed
        assert ((counts - 10_000).square() / 10_000).sum() < 43.8
        assert share.var() == pytest.approx(1 / 12, rel=0.01)


def test_numbers_know_nothing_of_each_other():
    """Neighbours come from the same integer, calls from the same generator."""
    source = draw(100_000, [(-1.0, 1.0)] * 5)
    both = torch.cat((source(), source()), dim=1)
    correlation = torch.corrcoef(both.t()) - torch.eye(10)
    assert correlation.abs().max() < 5 / math.sqrt(100_000)  # five standard deviations


def test_the_generator_decides():
    assert torch.equal(draw(10)(), draw(10)()) and not torch.equal(draw(10)(), draw(10, seed=1)())
    source = draw(10)
    first = source()
    kept = first.clone()
    source()
    assert torch.equal(first, kept)  # what was handed out stays


def matrix(quat):
    """The matrix of the rotation from body to world, written out element by element."""
    w, x, y, z = quat.tolist()
    return torch.tensor(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def test_the_inverse_rotation_is_the_transposed_matrix():
    quats = torch.nn.functional.normalize(torch.randn(20, 4), dim=1)
    vectors = torch.randn(20, 3)
    matrices = torch.stack([matrix(quat) for quat in quats])
    torch.testing.assert_close(rotate_inverse(quats, vectors), (matrices.mT @ vectors.unsqueeze(2)).squeeze(2))


def test_a_robot_that_turned_left_sees_the_worlds_forward_to_its_right():
    quat = from_yaw(torch.tensor([math.pi / 2]))
    seen = rotate_inverse(quat, torch.tensor([[1.0, 0.0, 0.0]]))
    torch.testing.assert_close(seen, torch.tensor([[0.0, -1.0, 0.0]]), atol=1e-6, rtol=0)
