import pytest

from rsl_rl.utils.indexing import as_slice


@pytest.mark.parametrize("indices", [[], [3], [0, 1, 2], [5, 6], [2, 1], [0, 2], [1, 1]])
def test_a_slice_or_list_picks_what_the_indices_pick(indices):
    numbers, picked = list("abcdefg"), as_slice(indices)
    wanted = [numbers[i] for i in indices]
    assert (numbers[picked] if isinstance(picked, slice) else [numbers[i] for i in picked]) == wanted
    assert isinstance(picked, slice) == (indices in ([], [3], [0, 1, 2], [5, 6]))
