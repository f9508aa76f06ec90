"""The module in which rsl_rl 3.2 to 5 have this class."""

from rsl_rl.compat.runner import LoggerView as Logger

__all__ = ["Logger"]
