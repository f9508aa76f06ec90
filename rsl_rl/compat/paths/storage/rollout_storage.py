"""The module in which every earlier version has the storage."""

from rsl_rl.compat.storage import RolloutStorage

__all__ = ["RolloutStorage"]
