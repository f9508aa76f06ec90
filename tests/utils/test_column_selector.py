import pytest
import torch

from rsl_rl.utils.column_selector import ColumnSelector


@pytest.mark.parametrize("indices", [[], [3], [0, 1, 2], [5, 6], [2, 1], [0, 2], [1, 1]])
@pytest.mark.parametrize("shape", [(4, 7), (4, 7, 3)])
def test_columns_are_those_asked_for_and_a_view_where_they_follow_each_other(indices, shape):
    x = torch.randn(shape)
    picked = ColumnSelector(indices, "cpu")(x)
    assert torch.equal(picked, x[:, torch.tensor(indices, dtype=torch.long)])
    shared = picked.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert shared == (indices in ([], [3], [0, 1, 2], [5, 6]))
