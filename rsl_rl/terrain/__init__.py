"""Rough ground: tiles of several types, the heights at points, and the levels of robots."""

from rsl_rl.terrain.ground import Ground
from rsl_rl.terrain.terrain import Levels, Terrain, build_levels, build_terrain

__all__ = ["Ground", "Levels", "Terrain", "build_levels", "build_terrain"]
