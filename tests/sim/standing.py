"""A robot on its feet, where the tests of every engine begin."""

from typing import NamedTuple, Optional, Tuple

import torch

from rsl_rl.config.terrain import TerrainConfig
from rsl_rl.robots.go2 import GO2
from rsl_rl.sim.base import RobotPoseVel, Sim
from rsl_rl.terrain import build_terrain
from rsl_rl.utils.height_field import HeightField

POSE = torch.tensor(GO2.default_joint_pos)


class Place(NamedTuple):
    """A ground, and a level spot on it."""

    ground: Optional[HeightField]
    origin: Tuple[float, float, float]  # world [m]


PLANE = Place(None, (0.0, 0.0, 0.0))
_STAIRS = build_terrain(TerrainConfig({"stairs_down": 1.0}, num_columns=2, level=5, tile_size=6.0, platform_size=1.6))
TILE = Place(_STAIRS.ground, tuple(_STAIRS.origins[0, 0].tolist()))
"""The platform of a tile with stairs."""


def stand(sim: Sim, mask: Optional[torch.Tensor] = None, height: float = 0.32, place: Place = PLANE) -> None:
    """Put every robot, or those of a mask, at rest into its standing pose."""
    n = sim.num_envs
    position, upright, still = torch.tensor(place.origin).repeat(n, 1), torch.zeros(n, 4), torch.zeros(n, 3)
    position[:, 2] += height
    upright[:, 0] = 1.0
    motion = RobotPoseVel(position, upright, still, still, POSE.repeat(n, 1), torch.zeros(n, 12))
    mask = torch.ones(n, dtype=torch.bool) if mask is None else mask
    sim.reset(mask.to(sim.device), RobotPoseVel._make(x.to(sim.device) for x in motion))
