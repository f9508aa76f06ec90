"""Faster ways to compute the same, each tested against the plain way."""

from rsl_rl.acceleration.flat_adam import FlatAdam
from rsl_rl.acceleration.selection import Acceleration

__all__ = ["Acceleration", "FlatAdam"]
