"""Formats of contracts by name: ours and those of other programs, one file each."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any, Dict, Mapping, Optional

from rsl_rl.contracts.contract import PER_JOINT
from rsl_rl.contracts.draft import Draft, check_given
from rsl_rl.utils.config_io import read_yaml
from rsl_rl.utils.registry import suggest, values_by_name

FORMATS: Dict[str, str] = {
    "policy.json": "own",
    "unitree_rl_lab": "unitree_rl_lab",
    "unitree_rl_gym": "unitree_rl_gym",
    "mjlab": "mjlab",
    "isaac_lab": "isaac_lab",
    "legged_gym": "legged_gym",
}
"""Module of each format, in the order in which a file is tried."""

LEAPP = {"models", "pipeline", "system information"}
"""Sections of a file of NVIDIA's package leapp."""


def format_of(name: str) -> ModuleType:
    """Return the module of a format; an unknown name is a ValueError."""
    if name not in FORMATS:
        raise ValueError(f"unknown format '{name}'; known: {', '.join(FORMATS)}.{suggest(name, FORMATS)}")
    return importlib.import_module(f"rsl_rl.contracts.{FORMATS[name]}")


def read_draft(path: Path, given: Optional[Mapping[str, Any]] = None) -> Draft:
    """Read a file of any format; ``given`` are fields that the file does not say, by name.

    A field with a value for each joint may be given as one number, or as a mapping from regular expressions of joint
    names. What cannot be read is a ValueError with the path and the field.
    """
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}")
    given = given or {}
    by_joint = {name: given[name] for name in PER_JOINT if isinstance(given.get(name), (Mapping, int, float))}
    given = {name: value for name, value in given.items() if name not in by_joint}
    try:
        check_given(given)
        found = next((module for module in map(format_of, FORMATS) if module.recognises(path)), None)
        if found is None:
            raise ValueError(_why_unknown(path))
        draft: Draft = found.read(path, given)
        return _with_joints(draft.with_values(given, "--set"), by_joint).completed()
    except ValueError as error:
        text = str(error)
        raise ValueError(text if str(path) in text else f"{path}: {text}") from error


def _why_unknown(path: Path) -> str:
    """Return why a file is of none of the formats."""
    if path.suffix in (".yaml", ".yml") and set(read_yaml(path, skip_objects=True)) >= LEAPP:
        return (
            "it is a LEAPP file, whose network takes readings and gives joint targets, so there is no observation that "
            "a contract could describe; give IO_descriptors.yaml of the same training"
        )
    return f"it is of none of the formats {', '.join(FORMATS)}"


def _with_joints(draft: Draft, by_joint: Mapping[str, Any]) -> Draft:
    """Return a draft with values that are given by joint names; without names they stay missing."""
    names = draft.values.get("joint_names")
    if not isinstance(names, (list, tuple)):
        return draft
    joints = list(map(str, names))
    values = {name: list(values_by_name(value, joints, f"--set {name}")) for name, value in by_joint.items()}
    return draft.with_values(values, "--set")
