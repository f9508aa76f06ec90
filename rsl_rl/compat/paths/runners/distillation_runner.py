"""The module in which rsl_rl 2.3 to 5 have this class."""

from rsl_rl.compat.runner import DistillationRunner

__all__ = ["DistillationRunner"]
