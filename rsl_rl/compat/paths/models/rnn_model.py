"""The module in which rsl_rl 4 and 5 have this class."""

from rsl_rl.compat.models import RNNModel

__all__ = ["RNNModel"]
