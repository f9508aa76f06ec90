"""Formats of contracts by name: ours and those of other programs, one file each."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any, Dict, Mapping, Optional

from rsl_rl.contracts.draft import Draft, check_given
from rsl_rl.utils.registry import suggest

FORMATS: Dict[str, str] = {
    "policy.json": "own",
    "unitree_rl_lab": "unitree_rl_lab",
    "unitree_rl_gym": "unitree_rl_gym",
    "mjlab": "mjlab",
    "isaac_lab": "isaac_lab",
    "legged_gym": "legged_gym",
}
"""Module of each format, in the order in which a file is tried."""


def format_of(name: str) -> ModuleType:
    """Return the module of a format; an unknown name is a ValueError."""
    if name not in FORMATS:
        raise ValueError(f"unknown format '{name}'; known: {', '.join(FORMATS)}.{suggest(name, FORMATS)}")
    return importlib.import_module(f"rsl_rl.contracts.{FORMATS[name]}")


def read_draft(path: Path, given: Optional[Mapping[str, Any]] = None) -> Draft:
    """Read a file of any format; ``given`` are fields that the file does not say, by name.

    What cannot be read is a ValueError with the path and the field.
    """
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}")
    given = given or {}
    try:
        check_given(given)
        found = next((module for module in map(format_of, FORMATS) if module.recognises(path)), None)
        if found is None:
            raise ValueError(f"it is of none of the formats {', '.join(FORMATS)}")
        draft: Draft = found.read(path, given)
        return draft.with_values(given, "--set").completed()
    except ValueError as error:
        text = str(error)
        raise ValueError(text if str(path) in text else f"{path}: {text}") from error
