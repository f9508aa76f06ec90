"""Settings of the ground."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Dict, Union

from rsl_rl.config.base import (
    Settings,
    require,
    require_counts,
    require_field,
    require_not_negative,
    require_positive,
    require_within,
)
from rsl_rl.config.mdp import Term

MAX_POINTS = 50_000_000
"""Largest number of points of a height field."""


@dataclass(frozen=True)
class TerrainType(Term):
    """One type of rough ground."""

    share: float = 1.0
    """Share of the columns, relative to the shares of the other types."""
    func: str = ""
    """Function of rsl_rl.terrain.types, or "package.module:function"; empty: the name of the type."""
    params: Dict[str, Any] = field(default_factory=dict)
    """Parameters of the function by name."""

    def __post_init__(self):
        super().__post_init__()
        require_positive(self, "share")


@dataclass(frozen=True)
class TerrainConfig(Settings):
    """The ground: a plane, or square tiles of rough ground in a height field.

    The rows of tiles are levels of difficulty, the columns are types. A robot starts in the middle of a tile. The edges
    of all tiles have the height 0.
    """

    section: ClassVar[str] = "env.terrain"

    types: Dict[str, Union[float, TerrainType]] = field(default_factory=dict)
    """Share of the columns of each type, or a TerrainType with share, function and parameters; a name is a function of
    rsl_rl.terrain.types, or "package.module:function". Empty: a plane."""
    num_levels: int = 10
    """Levels of difficulty, from 0."""
    num_columns: int = 20
    """Columns of tiles."""
    tile_size: float = 8.0
    """Length and width of a tile [m]."""
    platform_size: float = 2.0
    """Length and width of the square in the middle of a tile on which robots start [m]."""
    cell: float = 0.1
    """Distance between neighbouring points of the height field [m]."""
    border: float = 4.0
    """Width of the flat border around all tiles [m]; an episode ends 1 m from its edge, like at a time limit."""
    seed: int = 1
    """Seed of random shapes."""
    curriculum: bool = True
    """Move a robot up a level when it walks far, and down when it does not; otherwise it starts on all levels."""
    max_start_level: int = 1
    """Highest level at the start of a training with the curriculum."""
    promotion_distance: float = 0.5
    """Distance from the start of an episode to its end at which a robot moves up, in tile sizes."""
    demotion_share: float = 0.5
    """Share of the commanded distance below which a robot moves down."""
    level: int = -1
    """Level of all rows, without a curriculum, such as for an evaluation; -1: each row has its own."""

    def __post_init__(self):
        super().__post_init__()
        require_counts(self, 1, "num_levels", "num_columns", high=1000)
        require_positive(self, "platform_size", "promotion_distance")
        require_within(self, 1e-3, 1e4, "tile_size", "cell")
        require_not_negative(self, "demotion_share")
        require_counts(self, 0, "seed")
        require_within(self, 2.0, 1000.0, "border")
        require_counts(self, 0, "max_start_level", high=1000)
        require_field(
            self, "level", -1 <= self.level < self.num_levels, f": give a level below {self.num_levels}, or -1"
        )
        points = round(self.tile_size / self.cell)
        whole = points >= 4 and abs(points * self.cell - self.tile_size) < 1e-6
        require_field(self, "cell", whole, f" does not divide env.terrain.tile_size={self.tile_size:g}; give a divisor")
        fits = self.platform_size <= self.tile_size - 2.0
        require_field(self, "platform_size", fits, f": leave 1 m on each side of a tile of {self.tile_size:g} m")
        for name, share in self.types.items():
            positive = isinstance(share, TerrainType) or share > 0
            require(positive, f"env.terrain.types.{name}={share} must be positive; leave the type out instead")
        rows = points * self.num_rows + 2 * round(self.border / self.cell)
        columns = points * self.num_columns + 2 * round(self.border / self.cell)
        fits = not self.is_rough or rows * columns <= MAX_POINTS
        require(fits, f"env.terrain has {rows} x {columns} points, more than {MAX_POINTS}; give fewer or larger cells")

    @property
    def is_rough(self) -> bool:
        """Whether the ground is not a plane."""
        return bool(self.types)

    @property
    def num_rows(self) -> int:
        """Rows of tiles: one for each level, or as many as columns if all have one level."""
        return self.num_levels if self.level < 0 else self.num_columns

    @property
    def has_curriculum(self) -> bool:
        """Whether robots move between levels."""
        return self.is_rough and self.curriculum and self.level < 0 and self.num_levels > 1

    @property
    def all_types(self) -> Dict[str, TerrainType]:
        """``types`` with a TerrainType for each number."""
        return {name: x if isinstance(x, TerrainType) else TerrainType(x) for name, x in self.types.items()}
