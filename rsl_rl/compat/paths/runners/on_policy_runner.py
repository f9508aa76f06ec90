"""The module in which rsl_rl 1 to 5 have this class."""

from rsl_rl.compat.runner import OnPolicyRunner

__all__ = ["OnPolicyRunner"]
