"""Settings that the functions of terms get for their parameters."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Dict

from rsl_rl.config.base import Settings
from rsl_rl.utils.binding import bind_term, find_function

__all__ = ["bind_term", "find_function", "settings_of"]


def settings_of(section: Settings) -> Dict[str, Any]:
    """Return what a function gets for its parameters without a default: ``cfg``, the section of the config, and each
    of its settings by name."""
    return {"cfg": section, **{f.name: getattr(section, f.name) for f in fields(section)}}  # type: ignore[arg-type]
