"""Configurations, checkpoints and names of earlier versions of rsl_rl; only this package knows a version.

The runner reaches it through :func:`client_of`, once, when it is constructed.
"""

from rsl_rl.compat.checkpoints import convert_checkpoint
from rsl_rl.compat.client import Client, client_of

__all__ = ["Client", "client_of", "convert_checkpoint"]
