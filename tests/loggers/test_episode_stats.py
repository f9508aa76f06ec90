import json
import math

import pytest
import torch

from rsl_rl.loggers import EpisodeStats, RecentEpisodes

ALL = torch.tensor(True)  # every step is valid


def test_returns_and_lengths_are_those_of_the_episodes_that_ended():
    stats = EpisodeStats(2, torch.device("cpu"))
    for t, done in enumerate([[0, 0], [1, 0], [0, 0], [1, 1]]):
        stats.record(torch.tensor([1.0, 10.0 * t]), torch.tensor(done).bool(), ALL, {})
    names, sums = stats.pop()
    result = dict(zip(names, sums.tolist()))
    assert result["return"] == [2 + 2 + 60, 3]  # sum, count
    assert result["length"] == [2 + 2 + 4, 3]


def test_an_episode_may_span_iterations():
    stats = EpisodeStats(1, torch.device("cpu"))
    stats.record(torch.ones(1), torch.zeros(1, dtype=torch.bool), ALL, {})
    stats.pop()
    stats.record(torch.ones(1), torch.ones(1, dtype=torch.bool), ALL, {})
    names, sums = stats.pop()
    assert dict(zip(names, sums.tolist()))["return"] == [2, 1]


def test_an_episode_that_broke_does_not_count_and_the_next_one_does():
    stats = EpisodeStats(1, torch.device("cpu"))
    for done, valid in ((False, True), (True, False), (True, True)):
        stats.record(torch.ones(1), torch.tensor([done]), torch.tensor([valid]), {})
    names, sums = stats.pop()
    assert dict(zip(names, sums.tolist())) == {"return": [1, 1], "length": [1, 1]}


def test_what_is_remembered_goes_on():
    stats, other = (EpisodeStats(1, torch.device("cpu")) for _ in range(2))
    stats.record(torch.ones(1), torch.zeros(1, dtype=torch.bool), ALL, {})
    other.load_state_dict(stats.state_dict())
    other.record(torch.ones(1), torch.ones(1, dtype=torch.bool), ALL, {})
    assert other.pop()[1].tolist() == [[2, 1], [2, 1]]
    recent, later = RecentEpisodes(), RecentEpisodes()
    recent.add(2, 6.0, 8.0)
    later.load_state_dict(json.loads(json.dumps(recent.state_dict())))
    assert later.means() == (3.0, 4.0)


def test_logged_values_are_averaged_over_what_is_a_number():
    stats = EpisodeStats(2, torch.device("cpu"))
    logs = [
        {"a": torch.tensor([1.0, math.nan]), "b": 4},
        {"a": torch.tensor([3.0, 5.0])},
        {"a": torch.tensor([math.inf, -math.inf])},
        {"a": torch.full((2,), math.nan)},
    ]
    for log in logs:
        stats.record(torch.zeros(2), torch.zeros(2, dtype=torch.bool), ALL, {"log": log})
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
