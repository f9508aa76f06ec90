"""The tiles of a terrain, where robots start on it, and the curriculum of its levels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Mapping, NamedTuple, Optional, Tuple

import numpy as np
import torch
from torch import Tensor

from rsl_rl.config.terrain import TerrainConfig
from rsl_rl.terrain.types import TYPES, Tile
from rsl_rl.utils.binding import bind_named
from rsl_rl.utils.height_field import HeightField
from rsl_rl.utils.tensors import heading, none_on_cpu, turn

_EDGE = 1.0
"""Distance from the edge of the ground at which an episode ends [m]."""

_SPREAD = 0.25
"""Largest distance of a start from the middle of the tile along x and y, in sizes of the platform."""


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
    functions = {
        name: bind_named(name, kind, TYPES, "terrain type", f"env.terrain.types.{name}", num_arguments=2)
        for name, kind in cfg.all_types.items()
    }
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


class Progress(NamedTuple):
    """What robots reached since the last call of :meth:`Levels.read_progress`, over finished episodes."""

    episodes: int
    walked: float  # mean distance from the start [m]
    commanded: float  # mean distance that the commands asked for [m]
    fall_rate: float  # share of episodes that ended with a fall
    mean_level: float


class Levels:
    """N robots on a plane: all start at the origin, and there is no edge."""

    spread = 0.0
    """Largest distance of a start from ``origins`` along x and y [m]."""

    def __init__(self, num_envs: int, device: torch.device):
        self.origins = torch.zeros(num_envs, 3, device=device)  # [N, 3] start of each robot, on the ground
        self._nowhere = torch.zeros(num_envs, dtype=torch.bool, device=device)

    def at_edge(self, position: Tensor) -> Tensor:
        """Return which robots have reached the edge of the ground, [N] bool; position [N, 3]."""
        return self._nowhere

    def step(
        self, position: Tensor, quat: Tensor, command: Tensor, done: Tensor, time_outs: Tensor
    ) -> Mapping[str, Tensor]:
        """Count a control step, change the levels of robots whose episode ends, and return metrics: mean levels.

        Position [N, 3] and orientation [N, 4] of the base; ``command`` [N, 3]: vx, vy [m/s] and yaw rate in the base
        frame; ``done`` and ``time_outs`` [N] bool.
        """
        return {}

    def reset(self, mask: Tensor) -> None:
        """Start the episodes of the robots marked in mask [N]."""

    def state_dict(self) -> Dict[str, Tensor]:
        """Return what the next steps depend on."""
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what :meth:`state_dict` returned."""

    def read_progress(self) -> Optional[Progress]:
        """Return what robots reached since the last call; None without a curriculum or without a finished episode."""
        return None


class TerrainLevels(Levels):
    """N robots on a terrain, each in a column of tiles, with a level that follows how far it walks.

    After Rudin et al., "Learning to Walk in Minutes Using Massively Parallel Deep Reinforcement Learning", 2021.
    """

    def __init__(
        self,
        cfg: TerrainConfig,
        terrain: Terrain,
        num_envs: int,
        generator: torch.Generator,
        max_episode_length: int,
        control_dt: float,
    ):
        device = generator.device
        super().__init__(num_envs, device)
        self._cfg, self._generator = cfg, generator
        self._max_length, self._control_dt = max_episode_length, control_dt  # in control steps, and their length [s]
        self.spread = _SPREAD * cfg.platform_size
        self._tiles = torch.as_tensor(terrain.origins, device=device)  # [rows, columns, 3]
        robots = torch.arange(num_envs, device=device)
        self.column = robots * cfg.num_columns // num_envs  # [N], the same in every episode
        rows = cfg.max_start_level + 1 if cfg.has_curriculum else cfg.num_rows
        self.level = self._random_levels(min(rows, cfg.num_rows))  # [N] row of tiles
        kinds = torch.as_tensor(terrain.column_types, device=device)[self.column]
        self._of_type = torch.stack([kinds == i for i in range(len(terrain.types))])  # [types, N]
        self._names = ("terrain_level", *(f"terrain_level_{name.rpartition(':')[2]}" for name in terrain.types))
        first = torch.tensor(terrain.ground.origin, device=device)
        self._low, self._high = first + _EDGE, first + torch.tensor(terrain.ground.size, device=device) - _EDGE
        self._commanded = torch.zeros(num_envs, 2, device=device)  # displacement that commands asked for [m]
        self._age = torch.zeros(num_envs, device=device)  # control steps of the episode
        self._sums = torch.zeros(4, dtype=torch.float64, device=device)
        self._start()

    def _random_levels(self, count: int) -> Tensor:
        drawn = torch.rand(len(self.column), device=self.column.device, generator=self._generator)
        return (drawn * count).to(torch.long).clamp(max=count - 1)

    def _start(self) -> None:
        self.origins = self._tiles[self.level, self.column]
        self._metrics = self._compute_metrics()

    def _compute_metrics(self) -> Dict[str, Tensor]:
        if not self._cfg.has_curriculum:
            return {}
        level = self.level.float()
        of_type = (level * self._of_type).sum(dim=1) / self._of_type.sum(dim=1)  # NaN if no robot is there
        return dict(zip(self._names, torch.cat((level.mean().view(1), of_type)).unbind()))

    def at_edge(self, position: Tensor) -> Tensor:
        inside = (position[:, :2] > self._low) & (position[:, :2] < self._high)
        return ~inside.all(dim=1)

    def step(
        self, position: Tensor, quat: Tensor, command: Tensor, done: Tensor, time_outs: Tensor
    ) -> Mapping[str, Tensor]:
        if self._cfg.has_curriculum:
            commanded = turn(heading(quat), command[:, :2]).mul_(self._control_dt)  # [N, 2] in world axes [m]
            self._commanded += commanded
            self._age += 1
            if not none_on_cpu(done):
                self._move(position, commanded, done, time_outs)
        return self._metrics

    def reset(self, mask: Tensor) -> None:
        self._commanded.masked_fill_(mask.unsqueeze(1), 0.0)
        self._age.masked_fill_(mask, 0.0)

    def _move(self, position: Tensor, commanded: Tensor, done: Tensor, time_outs: Tensor) -> None:
        """Change the levels of the robots marked in done."""
        cfg, fell = self._cfg, done & ~time_outs
        walked = (position[:, :2] - self.origins[:, :2]).norm(dim=1).nan_to_num(0.0)  # 0 for a broken robot
        # A robot that falls would have had the rest of the episode, with its last command.
        rest = (self._max_length - self._age).clamp(min=0.0) * fell
        asked = torch.addcmul(self._commanded, commanded, rest.unsqueeze(1)).norm(dim=1)
        level = next_levels(
            self.level,
            walked >= cfg.promotion_distance * cfg.tile_size,
            walked < cfg.demotion_share * asked,
            self._random_levels(cfg.num_levels),
            cfg.num_levels,
        )
        self.level = torch.where(done, level, self.level)
        self._sums += torch.stack((torch.ones_like(walked), walked, asked, fell.float())).double() @ done.double()
        self._start()

    def state_dict(self) -> Dict[str, Tensor]:
        return {"level": self.level.clone(), "commanded": self._commanded.clone(), "age": self._age.clone()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        if not state:
            return  # of a run without a terrain
        self.level.copy_(state["level"].clamp(max=len(self._tiles) - 1))  # the config may have fewer
        self._commanded.copy_(state["commanded"])
        self._age.copy_(state["age"])
        self._start()

    def read_progress(self) -> Optional[Progress]:
        episodes, walked, asked, falls = self._sums.tolist()
        self._sums.zero_()
        if not (self._cfg.has_curriculum and episodes):
            return None
        mean_level = float(self.level.float().mean())
        return Progress(int(episodes), walked / episodes, asked / episodes, falls / episodes, mean_level)


def next_levels(level: Tensor, promoted: Tensor, demoted: Tensor, random_level: Tensor, num_levels: int) -> Tensor:
    """Return the next level of each robot, [N]: one higher, one lower or the same; after the highest a random one.

    ``random_level`` [N] is used for robots that solve the highest level, so that they do not forget the others. A
    promotion takes precedence over a demotion.
    """
    higher = torch.where(level + 1 < num_levels, level + 1, random_level)
    lower = (level - 1).clamp(min=0)
    return torch.where(promoted, higher, torch.where(demoted, lower, level))


def build_levels(
    cfg: TerrainConfig,
    terrain: Optional[Terrain],
    num_envs: int,
    generator: torch.Generator,
    max_episode_length: int,  # in control steps
    control_dt: float,  # [s]
) -> Levels:
    """Return where robots start; without a terrain on the plane."""
    if terrain is None:
        return Levels(num_envs, generator.device)
    return TerrainLevels(cfg, terrain, num_envs, generator, max_episode_length, control_dt)
