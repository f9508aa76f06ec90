"""The shapes of the tiles."""

from dataclasses import replace

import numpy as np
import pytest

from configs.go2_rough import TERRAIN
from rsl_rl.config.terrain import TerrainConfig, TerrainType
from rsl_rl.terrain import build_terrain
from rsl_rl.terrain.types import TYPES, Tile

SIZE, CELL = 6.0, 0.1
AXIS = np.arange(-30, 31) * CELL


def tile(seed=0):
    x, y = np.meshgrid(AXIS, AXIS, indexing="ij")
    return Tile(x, y, SIZE, 1.6, np.random.default_rng(seed))


def row(heights):
    """Heights from the middle of the tile along x."""
    return heights[30:, 30]


@pytest.mark.parametrize("name", TYPES)
def test_type_is_pure_level_at_the_edge_and_on_the_platform_and_harder_with_difficulty(name):
    first, second = TYPES[name](tile(), 1.0), TYPES[name](tile(), 1.0)
    np.testing.assert_array_equal(first, second)
    edge = np.concatenate((first[0], first[-1], first[:, 0], first[:, -1]))
    assert (edge == 0).all()
    if "rough" not in name:
        assert np.ptp(first[27:34, 27:34]) < 1e-9
    easy = TYPES[name](tile(), 0.0)
    assert name == "flat" or np.abs(np.diff(easy)).sum() < np.abs(np.diff(first)).sum()


def test_stairs_have_steps_of_the_given_height_and_width():
    up = row(TYPES["stairs_up"](tile(), 0.5, step_height=(0.0, 0.2), step_width=0.3))
    rises = np.flatnonzero(np.diff(up))
    np.testing.assert_allclose(np.diff(up)[rises], 0.1)
    np.testing.assert_array_equal(np.diff(rises), 3)
    assert up[0] == pytest.approx(-0.1 * len(rises)) and up[-1] == 0
    np.testing.assert_allclose(row(TYPES["stairs_down"](tile(), 0.5, step_height=(0.0, 0.2))), -up)


def test_slope_rises_by_the_given_number_per_metre():
    up = row(TYPES["slope_up"](tile(), 1.0, slope=(0.0, 0.4)))
    np.testing.assert_allclose(np.diff(up)[10:25] / CELL, 0.4)
    assert (row(TYPES["slope_down"](tile(), 1.0, slope=(0.0, 0.4))) == -up).all()


def test_gap_is_as_wide_at_its_bottom_as_asked_for():
    heights = row(TYPES["gap"](tile(), 1.0, width=(0.0, 0.4), depth=0.5))
    assert (np.flatnonzero(heights == -0.5) == np.arange(9, 14)).all()  # 0.9 m to 1.3 m: behind the platform's edge


@pytest.mark.parametrize("name", ["gap", "stepping_stones"])
def test_gaps_grow_deeper_with_the_difficulty(name):
    assert [row(TYPES[name](tile(), d)).min() for d in (0.0, 0.5, 1.0)] == pytest.approx([-0.1, -0.3, -0.5])


def test_equal_seeds_give_equal_terrains_and_tiles_fit_together():
    one, same = build_terrain(TERRAIN), build_terrain(TERRAIN)
    other = build_terrain(replace(TERRAIN, seed=2))
    np.testing.assert_array_equal(one.ground.heights, same.ground.heights)
    assert (one.ground.heights != other.ground.heights).any()
    heights, n, border = one.ground.heights, 60, 40
    for k in range(TERRAIN.num_levels + 1):
        assert (heights[border + k * n] == 0).all()
    for k in range(TERRAIN.num_columns + 1):
        assert (heights[:, border + k * n] == 0).all()
    assert (heights[:border] == 0).all() and (heights[:, -border:] == 0).all()


def test_columns_follow_the_shares_and_origins_lie_on_the_platforms():
    terrain = build_terrain(TerrainConfig(types={"stairs_up": 3.0, "flat": 1.0}, num_columns=8, num_levels=3))
    assert terrain.column_types.tolist() == [0] * 6 + [1] * 2
    assert terrain.origins.shape == (3, 8, 3)
    assert terrain.origins[0, 0, 2] < 0 and (terrain.origins[:, 6:, 2] == 0).all()
    np.testing.assert_allclose(np.diff(terrain.origins[:, 0, 0]), 8.0)
    np.testing.assert_allclose(terrain.origins.mean(axis=(0, 1))[:2], 0, atol=1e-5)


def test_one_level_for_all_rows():
    cfg = TerrainConfig(types={"stairs_up": 1.0}, num_columns=2, level=4)
    rows = build_terrain(cfg)
    levels = build_terrain(replace(cfg, level=-1))
    assert rows.origins.shape[:2] == (2, 2)
    assert (rows.origins[..., 2] == levels.origins[4, 0, 2]).all()


def pit(tile, difficulty, *, depth=1.0):
    return np.where(tile.radius < 2.0, -depth, 0.0)


def test_own_type_with_parameters():
    kind = TerrainType(func=f"{__name__}:pit", params={"depth": 0.25})
    terrain = build_terrain(TerrainConfig(types={"pit": kind}, num_columns=1, num_levels=1))
    assert terrain.ground.heights.min() == -0.25


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"types": {"stair_up": 1.0}}, "unknown terrain type 'stair_up'.*Did you mean 'stairs_up'"),
        ({"types": {"gap": TerrainType(params={"wide": 1.0})}}, r"env\.terrain\.types\.gap\.params has 'wide'"),
        ({"types": {"gap": 1.0, "flat": 0.001}}, "num_columns=20 leaves no column for the type flat"),
        ({"types": {"gap": -1.0}}, r"env\.terrain\.types\.gap=-1.0 must be positive"),
        ({"cell": 2e-313}, r"env\.terrain\.cell=2e-313 must lie in \[0\.001, 10000\]"),
        ({"cell": 0.3}, r"env\.terrain\.cell=0\.3 does not divide env\.terrain\.tile_size=8"),
        ({"platform_size": 7.0}, "leave 1 m on each side"),
        ({"level": 10}, "give a level below 10"),
        ({"types": {"gap": 1.0}, "cell": 0.005}, "give fewer or larger cells"),
    ],
)
def test_wrong_settings_are_explained(settings, words):
    with pytest.raises(ValueError, match=words):
        build_terrain(TerrainConfig(**settings))
