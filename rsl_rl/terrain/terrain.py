"""Build the tiles of a terrain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

import numpy as np

from rsl_rl.config.terrain import TerrainConfig
from rsl_rl.terrain.types import TYPES, Tile
from rsl_rl.utils.binding import bind_term, find_function
from rsl_rl.utils.height_field import HeightField


@dataclass(frozen=True)
class Terrain:
    """A height field of tiles, and where robots start on them."""

    ground: HeightField
    types: Tuple[str, ...]
    """Names of the types."""
    column_types: np.ndarray
    """Index of the type of each column of tiles [columns]."""
    origins: np.ndarray
    """Middle of each tile at the height of the highest point of its platform, in world coordinates [m], [rows, columns,
    3]."""


def build_terrain(cfg: TerrainConfig) -> Optional[Terrain]:
    """Return the terrain of a config, None for a plane; equal configs give equal terrains."""
    if not cfg.is_rough:
        return None
    types, columns = tuple(cfg.all_types), _column_types(cfg)
    functions = {}
    for name, kind in cfg.all_types.items():
        found = find_function(kind.func or name, TYPES, "terrain type")
        functions[name] = bind_term(found, kind.params, f"env.terrain.types.{name}", {}, num_arguments=2)
    n, border = round(cfg.tile_size / cfg.cell), round(cfg.border / cfg.cell)
    rows = cfg.num_rows
    heights = np.zeros((rows * n + 2 * border + 1, cfg.num_columns * n + 2 * border + 1), dtype=np.float32)
    origin = tuple(-(count - 1) / 2 * cfg.cell for count in heights.shape)
    axis = (np.arange(n + 1) - n / 2) * cfg.cell
    x, y = np.meshgrid(axis, axis, indexing="ij")
    platform = np.maximum(np.abs(x), np.abs(y)) <= cfg.platform_size / 2 + 1e-6
    origins = np.zeros((rows, cfg.num_columns, 3), dtype=np.float32)
    for row in range(rows):
        level = row if cfg.level < 0 else cfg.level
        for column, kind in enumerate(columns):
            rng = np.random.default_rng((cfg.seed, row, column))
            tile = Tile(x, y, cfg.tile_size, cfg.platform_size, rng)
            tops = _checked(types[kind], functions[types[kind]](tile, level / max(1, cfg.num_levels - 1)), x.shape)
            first = (border + row * n, border + column * n)
            heights[first[0] + 1 : first[0] + n, first[1] + 1 : first[1] + n] = tops[1:-1, 1:-1]
            middle = [origin[i] + (first[i] + n / 2) * cfg.cell for i in range(2)]
            origins[row, column] = (*middle, tops[platform].max())
    return Terrain(HeightField(heights, cfg.cell, (origin[0], origin[1])), types, columns, origins)


def _checked(name: str, heights: np.ndarray, shape: Tuple[int, ...]) -> np.ndarray:
    if np.shape(heights) != shape or not np.isfinite(heights).all():
        raise ValueError(
            f"the terrain type '{name}' returns heights of shape {list(np.shape(heights))}; return finite ones of the "
            f"shape of tile.x, {list(shape)}"
        )
    return heights


def _column_types(cfg: TerrainConfig) -> np.ndarray:
    """Return the index of the type of each column, [columns], in the order of the config."""
    shares: Dict[str, float] = {name: kind.share for name, kind in cfg.all_types.items()}
    limits = np.cumsum(list(shares.values())) / sum(shares.values())
    middles = (np.arange(cfg.num_columns) + 0.5) / cfg.num_columns
    columns = np.searchsorted(limits, middles)
    missing: List[str] = [name for i, name in enumerate(shares) if i not in columns]
    if missing:
        raise ValueError(
            f"env.terrain.num_columns={cfg.num_columns} leaves no column for the type {', '.join(missing)}; give more "
            "columns, or larger shares"
        )
    return columns
