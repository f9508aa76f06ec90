import math

import pytest
import torch

from rsl_rl.utils.uniform import Uniform

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
