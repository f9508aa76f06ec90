import math

import pytest
import torch

from rsl_rl.loggers import EpisodeStats, RecentEpisodes


def test_returns_and_lengths_are_those_of_the_episodes_that_ended():
    stats = EpisodeStats(2, torch.device("cpu"))
    for t, done in enumerate([[0, 0], [1, 0], [0, 0], [1, 1]]):
        stats.record(torch.tensor([1.0, 10.0 * t]), torch.tensor(done).bool(), {})
    names, sums = stats.pop()
    result = dict(zip(names, sums.tolist()))
    assert result["return"] == [2 + 2 + 60, 3]  # sum, count
    assert result["length"] == [2 + 2 + 4, 3]


def test_an_episode_may_span_iterations():
    stats = EpisodeStats(1, torch.device("cpu"))
    stats.record(torch.ones(1), torch.zeros(1, dtype=torch.bool), {})
    stats.pop()
    stats.record(torch.ones(1), torch.ones(1, dtype=torch.bool), {})
    names, sums = stats.pop()
    assert dict(zip(names, sums.tolist()))["return"] == [2, 1]


def test_logged_values_are_averaged_over_what_is_a_number():
    stats = EpisodeStats(2, torch.device("cpu"))
    logs = [
        {"a": torch.tensor([1.0, math.nan]), "b": 4},
        {"a": torch.tensor([3.0, 5.0])},
        {"a": torch.full((2,), math.nan)},
    ]
    for log in logs:
        stats.record(torch.zeros(2), torch.zeros(2, dtype=torch.bool), log)
    names, sums = stats.pop()
    result = dict(zip(names, sums.tolist()))
    assert result["episode/a"] == [9, 3] and result["episode/b"] == [4, 1]


def test_the_window_holds_the_last_hundred_episodes_and_no_fewer():
    recent = RecentEpisodes(window=100)
    assert recent.means() == (None, None)
    recent.add(0, 0.0, 0.0)
    assert recent.means() == (None, None)
    recent.add(80, 80.0, 800.0)
    recent.add(60, 120.0, 600.0)  # 140 in all: the first part is still needed for a hundred
    assert recent.means()[0] == pytest.approx(200 / 140)
    recent.add(50, 150.0, 500.0)  # 110 without the first
    assert recent.means() == (pytest.approx(270 / 110), pytest.approx(10.0))
