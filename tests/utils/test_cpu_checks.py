import math

import pytest
import torch

from rsl_rl.utils.cpu_checks import all_within_on_cpu, none_on_cpu


@pytest.mark.parametrize("marked, none", [([], True), ([False, False], True), ([False, True], False)])
def test_a_mask_is_seen_through(marked, none):
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
def test_numbers_are_within_a_limit_or_not(numbers, limit, within, shape):
    assert all_within_on_cpu(torch.tensor(numbers).view(shape), limit) == within


def test_nothing_is_known_of_what_would_have_to_be_waited_for():
    elsewhere = torch.zeros(2, device="meta")
    assert not all_within_on_cpu(elsewhere, 1.0) and not none_on_cpu(elsewhere.bool())
