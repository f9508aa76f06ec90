"""Configurations, checkpoints and names of earlier versions of rsl_rl; only this package knows a version.

Importing this package alone imports no torch, because its table of names is read whenever a name is missing elsewhere.
"""

from typing import Any

from rsl_rl.utils.registry import import_object

_PLACES = {
    "Client": "rsl_rl.compat.config:Client",
    "client_of": "rsl_rl.compat.config:client_of",
    "convert_checkpoint": "rsl_rl.compat.checkpoints:convert_checkpoint",
}
__all__ = ["Client", "client_of", "convert_checkpoint"]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return import_object(_PLACES[name])
    raise AttributeError(f"module 'rsl_rl.compat' has no attribute '{name}'")
