"""Deprecated, use rsl_rl.robots."""

import warnings

from rsl_rl.robots import ROBOTS, Robot

__all__ = ["ROBOTS", "Robot"]

warnings.warn("rsl_rl.tasks.robots is deprecated; import rsl_rl.robots", DeprecationWarning, stacklevel=2)
