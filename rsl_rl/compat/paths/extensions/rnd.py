"""The module in which rsl_rl 4 and 5 have this class and function."""

from rsl_rl.compat.former_code import resolve_rnd_config
from rsl_rl.compat.former_extensions import RandomNetworkDistillation

__all__ = ["RandomNetworkDistillation", "resolve_rnd_config"]
