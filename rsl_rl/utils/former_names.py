"""Names that packages of earlier versions of rsl_rl had; what they stand for is known to rsl_rl.compat."""

from __future__ import annotations

from typing import Any

from rsl_rl.utils.registry import import_object


def former_name(module: str, name: str) -> Any:
    """Return what an earlier version had under a name in a module; an unknown name is an AttributeError."""
    if name.startswith("_"):
        raise AttributeError(f"module '{module}' has no attribute '{name}'")
    return import_object("rsl_rl.compat.former_names:find")(module, name)
