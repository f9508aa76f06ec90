"""The module in which rsl_rl 2 and 3 have this class."""

from rsl_rl.compat.former_extensions import RandomNetworkDistillation

__all__ = ["RandomNetworkDistillation"]
