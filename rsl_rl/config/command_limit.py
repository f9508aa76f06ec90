"""Deprecated, use rsl_rl.config.mdp."""

import warnings

from rsl_rl.config.mdp import CommandLimitConfig

__all__ = ["CommandLimitConfig"]

warnings.warn("rsl_rl.config.command_limit is deprecated; import rsl_rl.config.mdp", DeprecationWarning, stacklevel=2)
