"""The share of a process in the CPUs of its machine."""

import os

import pytest

from rsl_rl.utils import cpus
from rsl_rl.utils.cpus import take_share_of_cpus


@pytest.mark.parametrize(
    ("own", "available", "count", "expected"),
    [
        (range(8), 8, 2, [{0, 1, 2, 3}, {4, 5, 6, 7}]),
        (range(8), 4, 2, [{0, 1}, {2, 3}]),  # a container's quota
        ([3, 5, 7], 3, 2, [{3}, {5}]),
        ([3, 5], 2, 3, [{3}, {5}, {3}]),
    ],
)
def test_shares_of_cpus_are_disjoint_where_there_are_enough(own, available, count, expected, monkeypatch):
    taken = []
    monkeypatch.setattr(cpus, "available_cpus", lambda: available)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(own))
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, share: taken.append(set(share)))
    sizes = [take_share_of_cpus(index, count) for index in range(count)]
    assert taken == expected and sizes == [len(share) for share in expected]
