"""Data of a robot model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Tuple

from rsl_rl.utils.registry import Registry


@dataclass(frozen=True)
class Robot:
    """Data of one robot model; joints are in the model file's order."""

    model_path: Path
    """MJCF file."""
    default_joint_pos: Tuple[float, ...]
    """Joint angles of the standing pose [rad], the joint targets of action 0."""
    standing_height: float
    """Height of the trunk at the start of an episode [m]."""
    foot_radius: float
    """Distance of a standing foot's centre from the floor [m]."""
    mirrored_joints: Tuple[int, ...]
    """Index of the joint that corresponds to each joint in the left-right mirror image."""
    mirror_signs: Tuple[float, ...]
    """Sign of each joint's angle in the mirror image."""
    mirrored_feet: Tuple[int, ...]
    """Index of the foot that corresponds to each foot in the mirror image."""


ROBOTS = Registry("robot", {"go2": "rsl_rl.robots.go2:GO2"})
