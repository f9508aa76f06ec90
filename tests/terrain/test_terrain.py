"""The curriculum: who moves up, who moves down."""

from dataclasses import replace

import pytest
import torch

from rsl_rl.config.terrain import TerrainConfig
from rsl_rl.terrain import Levels, build_levels, build_terrain
from rsl_rl.terrain.terrain import next_levels

CFG = TerrainConfig(types={"flat": 1.0, "stairs_up": 1.0}, num_levels=4, num_columns=2, tile_size=6.0)
N, DT, LENGTH = 8, 0.5, 20
STANDING = torch.tensor([1.0, 0.0, 0.0, 0.0]).expand(N, 4)
NONE, ALL = torch.zeros(N, dtype=torch.bool), torch.ones(N, dtype=torch.bool)


def make(cfg=CFG, seed=0):
    return build_levels(cfg, build_terrain(cfg), N, torch.Generator().manual_seed(seed), LENGTH, DT)


def walk(levels, distance, command, done=ALL, time_outs=ALL):
    """One control step at the end of which robots are ``distance`` [m] from their start."""
    position = levels.origins.clone()
    position[:, 0] += distance
    metrics = levels.step(position, STANDING, torch.tensor([command, 0.0, 0.0]).expand(N, 3), done, time_outs)
    levels.reset(done)
    return metrics


def test_next_levels():
    level, random_level = torch.tensor([0, 1, 1, 3, 3, 0]), torch.tensor([9, 9, 9, 2, 9, 9])
    promoted = torch.tensor([True, True, False, True, False, False])
    demoted = torch.tensor([False, True, True, False, False, True])
    assert next_levels(level, promoted, demoted, random_level, 4).tolist() == [1, 2, 0, 2, 3, 0]


def test_half_a_tile_moves_up_and_less_than_half_of_the_command_moves_down():
    levels = make()
    levels.level.fill_(1)
    walk(levels, 2.9, 1.0)  # 0.5 m were asked for, and no promotion
    assert (levels.level == 1).all()
    walk(levels, 3.0, 1.0)
    assert (levels.level == 2).all()
    for _ in range(9):
        walk(levels, 0.0, 1.0, done=NONE)
    walk(levels, 2.4, 1.0)  # of 5 m
    assert (levels.level == 1).all()
    for _ in range(9):
        walk(levels, 0.0, 1.0, done=NONE)
    walk(levels, 2.6, 1.0)
    assert (levels.level == 1).all()


def test_commands_back_and_forth_ask_for_no_distance():
    levels = make()
    levels.level.fill_(1)
    for i in range(9):
        walk(levels, 0.0, (-1.0) ** i, done=NONE)
    walk(levels, 0.0, -1.0)
    assert (levels.level == 1).all()


def test_a_fall_counts_the_rest_of_the_episode():
    levels = make()
    levels.level.fill_(1)
    walk(levels, 1.0, 1.0, time_outs=ALL)
    assert (levels.level == 1).all()  # a time-out, or the edge of the ground: 0.5 m were asked for
    walk(levels, 1.0, 1.0, time_outs=NONE)
    assert (levels.level == 0).all()  # a fall: 10 m


def test_robots_start_on_their_own_tile():
    levels = make()
    tiles = torch.as_tensor(build_terrain(CFG).origins)
    assert levels.column.tolist() == [0] * 4 + [1] * 4
    assert set(levels.level.tolist()) == {0, 1}
    assert torch.equal(levels.origins, tiles[levels.level, levels.column])
    walk(levels, 4.0, 1.0)
    assert torch.equal(levels.origins, tiles[levels.level, levels.column]) and levels.level.min() >= 1


def test_metrics_are_mean_levels_of_all_and_of_each_type():
    levels = make()
    levels.level.copy_(torch.tensor([0, 0, 2, 2, 3, 3, 3, 3]))
    metrics = walk(levels, 2.9, 1.0)
    assert {name: float(value) for name, value in metrics.items()} == {
        "terrain_level": 2.0,
        "terrain_level_flat": 1.0,
        "terrain_level_stairs_up": 3.0,
    }


def test_state_is_restored_bit_by_bit():
    one, other = make(), make(seed=1)
    for i in range(3):
        walk(one, 0.5 * i, 1.0, done=torch.arange(N) == i)
    other.load_state_dict(one.state_dict())
    assert torch.equal(one.origins, other.origins)
    for i in range(6):
        for levels in (one, other):
            walk(levels, 0.8 * i, 1.0, done=torch.arange(N) == i)
        assert torch.equal(one.level, other.level) and torch.equal(one.origins, other.origins)


def test_edge_ends_episodes_inside_of_the_border():
    levels = make()
    x = torch.tensor([0.0, 14.9, 15.1, -15.1, 0.0, 0.0, 0.0, 0.0])  # 4 levels of 6 m and a border of 4 m: 16 m
    y = torch.tensor([0.0, 0.0, 0.0, 0.0, 8.9, 9.1, -9.1, 0.0])
    edge = levels.at_edge(torch.stack((x, y, x), dim=1))
    assert edge.tolist() == [False, False, True, True, False, True, True, False]
    assert not Levels(N, torch.device("cpu")).at_edge(torch.full((N, 3), 1e6)).any()


def test_progress_is_of_finished_episodes_since_the_last_call():
    levels = make()
    assert levels.read_progress() is None
    walk(levels, 1.0, 1.0, done=torch.arange(N) < 4, time_outs=NONE)
    walk(levels, 3.0, 1.0, done=torch.arange(N) >= 4)
    progress = levels.read_progress()
    assert progress.episodes == 8 and progress.walked == pytest.approx(2.0) and progress.fall_rate == 0.5
    assert progress.commanded == pytest.approx((10.0 + 1.0) / 2) and levels.read_progress() is None


@pytest.mark.parametrize("change", [{"curriculum": False}, {"level": 2}])
def test_without_curriculum_levels_stay(change):
    levels = make(replace(CFG, num_columns=4, **change))
    before = levels.level.clone()
    assert len(set(before.tolist())) > 2
    assert walk(levels, 9.0, 1.0) == {} and torch.equal(levels.level, before) and levels.read_progress() is None
