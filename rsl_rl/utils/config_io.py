"""Frozen dataclasses to plain dicts and YAML, and back."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Dict, Mapping, Tuple, Type, TypeVar, Union, get_type_hints

import yaml

from rsl_rl.utils.registry import suggest

T = TypeVar("T")


def to_dict(cfg: Any) -> Dict[str, Any]:
    """Return a config as nested dicts and lists of plain values.

    Where a field holds a subclass of what it declares, the class is kept under ``kind`` for ``from_dict``.
    """
    return _plain(cfg, type(cfg))


def _plain(value: Any, declared: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        hints = get_type_hints(type(value))
        kind = {} if type(value) is declared else {"kind": type(value).__name__}
        return {**kind, **{f.name: _plain(getattr(value, f.name), hints[f.name]) for f in fields(value)}}
    if isinstance(value, Mapping):
        return {str(key): _plain(item, type(item)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, type(item)) for item in value]
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)


def from_dict(cls: Type[T], values: Mapping[str, Any], where: str = "") -> T:
    """Build a config from nested dicts; keys left out keep their defaults, and an unknown key is a ValueError."""
    if not isinstance(values, Mapping):
        raise ValueError(f"{where or cls.__name__} is a {type(values).__name__}; give a mapping of its settings")
    if "kind" in values:
        cls = _subclass(cls, str(values["kind"]), where)
        values = {key: value for key, value in values.items() if key != "kind"}
    hints = get_type_hints(cls)
    known = [f.name for f in fields(cls)]  # type: ignore[arg-type]
    for key in values:
        if key not in known:
            raise ValueError(
                f"unknown setting '{where}{key}'; known here: {', '.join(known)}.{suggest(str(key), known)}"
            )
    return cls(**{key: _convert(hints[key], value, f"{where}{key}") for key, value in values.items()})


def _subclass(cls: Type[T], name: str, where: str) -> Type[T]:
    """Find the class of that name among ``cls`` and everything derived from it so far."""
    found, left = {}, [cls]
    while left:
        candidate = left.pop()
        found[candidate.__name__] = candidate
        left += candidate.__subclasses__()
    if name not in found:
        raise ValueError(f"{where}kind='{name}'; known: {', '.join(sorted(found))}.{suggest(name, found)}")
    return found[name]


def _convert(hint: Any, value: Any, where: str) -> Any:
    """Bring a plain value to the type that the field declares."""
    origin: Any = getattr(hint, "__origin__", None)
    arguments: Tuple[Any, ...] = getattr(hint, "__args__", ())
    if is_dataclass(hint):
        return value if isinstance(value, hint) else from_dict(hint, value, f"{where}.")  # type: ignore[arg-type]
    if origin is tuple:
        return _convert_tuple(arguments, value, where)
    if origin is dict:
        if not isinstance(value, Mapping):
            raise ValueError(f"{where}={value!r}; give a mapping")
        return {str(key): _convert(arguments[1], item, f"{where}.{key}") for key, item in value.items()}
    if origin is Union:
        return None if value is None else _convert(arguments[0], value, where)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(hint, type) and (not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool)):
        raise ValueError(f"{where}={value!r} is a {type(value).__name__}; give a {hint.__name__}")
    return value


def _convert_tuple(item_hints: Tuple[Any, ...], value: Any, where: str) -> Tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"{where}={value!r}; give a list")
    if len(item_hints) == 2 and item_hints[1] is Ellipsis:
        item_hints = (item_hints[0],) * len(value)
    if len(value) != len(item_hints):
        raise ValueError(f"{where}={value!r} has {len(value)} values; give {len(item_hints)}")
    return tuple(_convert(hint, item, f"{where}[{i}]") for i, (hint, item) in enumerate(zip(item_hints, value)))


def write_yaml(cfg: Any, path: Path) -> None:
    """Write a config or a dict as YAML, in the order of its fields."""
    path.write_text(yaml.safe_dump(to_dict(cfg), sort_keys=False, default_flow_style=None, width=120), encoding="utf-8")


def read_yaml(path: Path) -> Dict[str, Any]:
    """Read a YAML mapping; a file that holds anything else is a ValueError."""
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{path} holds a {type(values).__name__}, not a mapping of settings")
    return values
