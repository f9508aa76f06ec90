"""JSON Schemas of policy.json and of other files, made of the dataclasses that read them."""

from __future__ import annotations

from collections import abc
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Dict, Tuple, Type, Union

from rsl_rl.config.mdp import MAX_HISTORY
from rsl_rl.contracts.contract import (
    FORMAT,
    HISTORY_ORDERS,
    MAX_TERMS,
    MEMORIES,
    QUATERNION_ORDERS,
    Contract,
    Term,
    Units,
)
from rsl_rl.utils.config_io import declared_types, help_of_field, to_dict

_PLAIN: Dict[Any, Dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    type(None): {"type": "null"},
    Any: {},
}
_ALLOWED: Dict[Any, Dict[str, Any]] = {
    (Contract, "format"): {"const": FORMAT},
    (Contract, "quaternion_order"): {"enum": list(QUATERNION_ORDERS)},
    (Contract, "history_order"): {"enum": list(HISTORY_ORDERS)},
    (Contract, "memory"): {"enum": list(MEMORIES)},
    (Contract, "control_period"): {"exclusiveMinimum": 0},
    (Contract, "observations"): {"maxItems": MAX_TERMS},
    (Contract, "joint_signs"): {"items": {"enum": [1, -1]}},
    **{
        (Contract, name): {"items": {"type": "number", "minimum": 0}}
        for name in ("stiffness", "damping", "torque_limits")
    },
    (Term, "size"): {"minimum": 1},
    (Term, "history"): {"minimum": 1, "maximum": MAX_HISTORY},
    (Units, "joint_pos"): {"enum": ["rad", "deg"]},
    (Units, "joint_vel"): {"enum": ["rad/s", "deg/s"]},
    (Units, "base_ang_vel"): {"enum": ["rad/s", "deg/s"]},
}
"""What a field allows besides its type."""


def schema(cls: Type = Contract, title: str = "Contract of a policy") -> Dict[str, Any]:
    """Return the JSON Schema of a contract of this format, or of another dataclass.

    It has the names, types and ranges of the fields. That sizes fit each other, only reading the file tells.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **_of_class(cls),
    }


def _of_class(cls: Type) -> Dict[str, Any]:
    hints, properties, required = declared_types(cls), {}, []
    for f in fields(cls):
        entry = {**_of_type(hints[f.name]), **_ALLOWED.get((cls, f.name), {})}
        entry["description"] = help_of_field(cls, f.name)
        if f.default is MISSING and f.default_factory is MISSING:
            required.append(f.name)
        elif f.default is not MISSING:
            entry["default"] = to_dict(f.default) if is_dataclass(f.default) else f.default
        properties[f.name] = entry
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _of_type(hint: Any) -> Dict[str, Any]:
    """Return the schema of a declared type."""
    origin: Any = getattr(hint, "__origin__", None)
    arguments: Tuple[Any, ...] = getattr(hint, "__args__", ())
    if origin is Union:
        return {"anyOf": [_of_type(option) for option in arguments]}
    if origin is tuple and arguments[1:] == (Ellipsis,):
        return {"type": "array", "items": _of_type(arguments[0])}
    if origin is tuple:
        fixed = {"prefixItems": [_of_type(item) for item in arguments], "items": False}
        return {"type": "array", "minItems": len(arguments), **fixed}
    if origin in (dict, abc.Mapping):
        return {"type": "object", "additionalProperties": _of_type(arguments[1])}
    return _PLAIN[hint] if hint in _PLAIN else _of_class(hint)
