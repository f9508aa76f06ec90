"""Faster implementations with the same results, each tested against the plain one."""

from rsl_rl.acceleration.flat_adam import FlatAdam
from rsl_rl.acceleration.selection import Acceleration

__all__ = ["Acceleration", "FlatAdam"]
