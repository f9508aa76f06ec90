"""Choose the ground of an evaluation, and compute what is drawn of it."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.config.terrain import TerrainType
from rsl_rl.tasks.robot_state import RobotState
from rsl_rl.terrain.types import TYPES
from rsl_rl.utils.registry import suggest
from rsl_rl.utils.tensors import heading

_COLUMNS = 4
"""Columns of tiles of one type, and rows of one level."""


def on_terrain(cfg: LeggedRobotConfig, name: str, level: int) -> LeggedRobotConfig:
    """Return the task on tiles of one type and one level; an empty name and the level -1 change nothing.

    The type is one of the task, with its parameters, or one of rsl_rl.terrain.types. A level without a name changes all
    types of the task.
    """
    terrain = cfg.terrain
    if name:
        known = {**dict.fromkeys(TYPES, TerrainType()), **terrain.all_types}
        if name not in known and ":" not in name:
            raise ValueError(f"--terrain {name}: unknown type; known: {', '.join(known)}.{suggest(name, known)}")
        terrain = replace(terrain, types={name: known.get(name, TerrainType())}, num_columns=_COLUMNS)
    elif level >= 0 and not terrain.is_rough:
        raise ValueError(f"--level {level}: the ground of this task is a plane; add --terrain, such as stairs_up")
    if not -1 <= level < terrain.num_levels:
        raise ValueError(f"--level {level}: give a level from 0 to {terrain.num_levels - 1}")
    return replace(cfg, terrain=replace(terrain, level=level, curriculum=False) if name or level >= 0 else terrain)


def scan_points(state: RobotState, pose: Tensor) -> Tensor:
    """Return the points of the height scan of robots in given poses [..., 7 + J], on the ground, [..., K, 3]."""
    rows = pose.flatten(0, -2).to(state.action.device, state.action.dtype)
    x, y = state.scan_grid(rows[:, :2], heading(rows[:, 3:7]))
    points = torch.stack((x, y, state.ground.height_at(x, y)), dim=-1)
    return points.view(*pose.shape[:-1], *points.shape[1:])
