"""The module in which rsl_rl 5 has this class."""

from rsl_rl.compat.runner import LogWriter

__all__ = ["LogWriter"]
