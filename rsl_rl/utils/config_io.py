"""Convert configs (frozen dataclasses) to dicts and YAML, and back."""

from __future__ import annotations

import ast
import contextlib
import enum
import functools
import inspect
import numbers
import re
import reprlib
import textwrap
from collections import abc
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Mapping, NamedTuple, Tuple, Type, TypeVar, Union, cast, get_type_hints

import yaml

from rsl_rl.utils.files import atomic_write
from rsl_rl.utils.registry import suggest
from rsl_rl.utils.text import one_line

T = TypeVar("T")

_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
_LARGEST_FLOAT = 3.4028234e38  # of 32 bits, in which tensors hold it
_LARGEST_INT = 2**63 - 1


def to_dict(cfg: Any) -> Dict[str, Any]:
    """Return a config as nested dicts and lists of plain values.

    If a field holds a subclass of its declared type, the class name is stored under ``kind`` for ``from_dict``.
    """
    return _to_plain(cfg, type(cfg))


def _to_plain(value: Any, declared: Any) -> Any:
    if _is_config(value):
        hints = _hints(type(value))
        kind = {} if type(value) is declared else {"kind": type(value).__name__}
        return {**kind, **{f.name: _to_plain(getattr(value, f.name), hints.get(f.name)) for f in fields(value)}}
    if isinstance(value, Mapping):
        return {str(key): _to_plain(item, type(item)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        declared_items = getattr(declared, "__args__", ())[:1]
        return [_to_plain(item, *(declared_items or (type(item),))) for item in value]
    value = value.value if isinstance(value, enum.Enum) else value
    for abstract, kind in ((bool, bool), (numbers.Integral, int), (numbers.Real, float), (str, str)):
        if isinstance(value, abstract):
            return value if type(value) is kind else cast(Any, kind)(value)  # Python numbers instead of NumPy's
    return None if value is None else str(value)


def _hints(cls: Type) -> Dict[str, Any]:
    """Return the types that a dataclass declares; none where a name in them cannot be resolved, in others' classes."""
    try:
        return get_type_hints(cls)
    except (NameError, TypeError):
        return {}


def from_dict(cls: Type[T], values: Mapping[str, Any], where: str = "") -> T:
    """Build a config from nested dicts; missing keys keep their defaults.

    A value that does not fit is a ValueError with the dotted path of the field, which starts with ``where``.
    """
    if not isinstance(values, Mapping):
        raise ValueError(f"{where or cls.__name__}={short_repr(values)}; give a mapping of its settings")
    prefix = f"{where}." if where else ""
    if "kind" in values:
        cls = _subclass(cls, values["kind"], prefix)
        values = {key: value for key, value in values.items() if key != "kind"}
    elif "default_kind" in vars(cls):
        cls = _subclass(cls, cls.default_kind, prefix)  # type: ignore[attr-defined]
    elif not is_dataclass(cls):
        raise ValueError(f"{prefix}kind is missing; name one of {', '.join(sorted(_kinds(cls)))}")
    hints = declared_types(cls)
    if hasattr(cls, "current_names"):
        values = cls.current_names(values)  # type: ignore[attr-defined]
    for key in values:
        if key not in hints:
            name = key_text(key)
            raise ValueError(f"unknown setting '{prefix}{name}'; known here: {', '.join(hints)}.{suggest(name, hints)}")
    for f in fields(cls):  # type: ignore[arg-type]
        if f.name not in values and f.default is MISSING and f.default_factory is MISSING:
            raise ValueError(f"{prefix}{f.name} is missing and has no default; give it a value")
    settings = {key: convert(hints[key], value, f"{prefix}{key}") for key, value in values.items()}
    try:
        return cls(**settings)
    except ValueError as error:
        section = getattr(cls, "section", "")
        if not section:
            raise ValueError(f"{prefix}{error}") from error
        if where in ("", section):  # the message has the path already
            raise
        raise ValueError(str(error).replace(f"{section}.", prefix)) from error


def help_of_field(cls: Type, name: str) -> str:
    """Return the docstring below a field of a dataclass in one line; empty if there is none."""
    owner = next(base for base in cls.__mro__ if name in vars(base).get("__annotations__", {}))
    try:
        tree: Any = ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0]
    except (OSError, TypeError):  # a class without a file
        return ""
    for node, following in zip(tree.body, tree.body[1:]):
        is_field = isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == name
        if is_field and isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            return one_line(str(following.value.value))
    return ""


@functools.lru_cache(maxsize=None)
def declared_types(cls: Type) -> Dict[str, Any]:
    """Return the declared type of each field of a dataclass; do not change the result."""
    hints = get_type_hints(cls)
    return {f.name: hints[f.name] for f in fields(cls)}


def _kinds(cls: Type) -> Dict[str, Type]:
    """Return ``cls`` and its present subclasses that are dataclasses, by name."""
    below = {name: kind for derived in cls.__subclasses__() for name, kind in _kinds(derived).items()}
    return {**below, cls.__name__: cls} if is_dataclass(cls) else below


def _subclass(cls: Type[T], name: Any, prefix: str) -> Type[T]:
    kinds = _kinds(cls)
    if not isinstance(name, str) or name not in kinds:
        raise ValueError(
            f"{prefix}kind={short_repr(name)}; known: {', '.join(sorted(kinds))}.{suggest(key_text(name), kinds)}"
        )
    return kinds[name]


def convert(hint: Any, value: Any, where: str) -> Any:
    """Convert a value to the declared type of a field; if that is impossible, raise a ValueError that starts with
    ``where``.

    Numbers become Python numbers and must be finite in 32 bits (integers: 64 bits), lists become tuples, and mappings
    become the declared config. The checks of an ``Annotated`` type must hold.
    """
    origin: Any = getattr(hint, "__origin__", None)
    arguments: Tuple[Any, ...] = getattr(hint, "__args__", ())
    if hasattr(hint, "__metadata__"):  # Annotated
        return _checked(convert(origin, value, where), hint.__metadata__, where)
    if origin is tuple:
        return _convert_tuple(arguments, value, where)
    if origin is abc.Sequence:
        return _convert_tuple((*arguments, Ellipsis), value, where)
    if origin in (dict, abc.Mapping):
        return _convert_dict(arguments[1], value, where)
    if origin is Union:
        options = [option for option in arguments if option is not type(None)]
        if value is None and len(options) < len(arguments):
            return None
        # Only configs and dicts are made of mappings, so that the message is about what the value can be.
        fitting = [option for option in options if _takes_mapping(option) == isinstance(value, Mapping)]
        options = fitting if fitting and not _is_config(value) else options
        for option in options[:-1]:
            with contextlib.suppress(ValueError):
                return convert(option, value, where)
        return convert(options[-1], value, where)
    if hint is Any or origin is not None or not isinstance(hint, type):
        return value
    if hint in (int, float):
        return _convert_number(hint, value, where)
    if isinstance(value, hint):
        return value
    if is_dataclass(hint) or (isinstance(value, Mapping) and _kinds(hint)):
        return from_dict(hint, value, where)  # type: ignore[arg-type]
    raise _mismatch(hint, value, where)


class Check(NamedTuple):
    """What a number, or another value, must be: the metadata of an ``Annotated`` type."""

    holds: Callable[[Any], bool]
    message: str
    """What follows path and value, such as " must be positive"."""


def _checked(value: Any, checks: Tuple[Any, ...], where: str) -> Any:
    for check in checks:
        if isinstance(check, Check) and not check.holds(value):
            raise ValueError(f"{where}={short_repr(value)}{check.message}")
    return value


def _takes_mapping(hint: Any) -> bool:
    return getattr(hint, "__origin__", None) in (dict, abc.Mapping) or (isinstance(hint, type) and bool(_kinds(hint)))


def _is_config(value: Any) -> bool:
    return is_dataclass(value) and not isinstance(value, type)


def _convert_number(hint: Type, value: Any, where: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral if hint is int else numbers.Real):
        raise _mismatch(hint, value, where)
    largest = _LARGEST_INT if hint is int else _LARGEST_FLOAT
    with contextlib.suppress(OverflowError):
        number: Any = hint(value)  # type: ignore[arg-type]  # of a number
        if abs(number) <= largest:  # false of NaN
            return number
    raise ValueError(f"{where}={short_repr(value)}: give a finite number, of at most {largest:.3g} in size")


def _convert_dict(item_hint: Any, value: Any, where: str) -> Dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{where}={short_repr(value)}; give a mapping")
    for key in value:
        if not isinstance(key, str):
            raise ValueError(f"{where} has the key {short_repr(key)}, a {type(key).__name__}; give names as keys")
    return {key: convert(item_hint, item, f"{where}.{key_text(key)}") for key, item in value.items()}


def _convert_tuple(item_hints: Tuple[Any, ...], value: Any, where: str) -> Tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"{where}={short_repr(value)}; give a list")
    if len(item_hints) == 2 and item_hints[1] is Ellipsis:
        item_hints = (item_hints[0],) * len(value)
    if len(value) != len(item_hints):
        raise ValueError(f"{where}={short_repr(value)} has {len(value)} values; give {len(item_hints)}")
    return tuple(convert(hint, item, f"{where}[{i}]") for i, (hint, item) in enumerate(zip(item_hints, value)))


def _mismatch(hint: Type, value: Any, where: str) -> ValueError:
    wanted = _WORDS.get(hint, f"a {hint.__name__}")
    if hint is float and isinstance(value, str) and re.fullmatch(r"[-+]?[\d.]+e[-+]?\d+", value, re.IGNORECASE):
        wanted += "; YAML needs a dot and a sign in the number, as in 1.0e-3"
    return ValueError(f"{where}={short_repr(value)} is a {type(value).__name__}; give {wanted}")


_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxlist, _SHORT.maxtuple, _SHORT.maxstring, _SHORT.maxother = 3, 8, 8, 100, 100


def short_repr(value: Any) -> str:
    """Return a value as one short line for messages."""
    try:
        return one_line(_SHORT.repr(value))[:300]
    except ValueError:  # an integer with thousands of digits
        return f"<{type(value).__name__}>"


def key_text(key: Any) -> str:
    """Return a key of a mapping as a part of a path in messages."""
    return key[:80] if isinstance(key, str) and key.isprintable() else short_repr(key)


def write_yaml(cfg: Any, path: Path) -> None:
    """Write a config or a dict as YAML, in the order of its fields."""
    atomic_write(path, yaml.safe_dump(to_dict(cfg), sort_keys=False, default_flow_style=None, width=120).encode())


def read_yaml(path: Path, skip_objects: bool = False) -> Dict[str, Any]:
    """Read a YAML mapping without executing code; a file with another content is a ValueError.

    With ``skip_objects``, Python tuples are lists and other Python objects None, and are errors otherwise.
    """
    content = path.read_bytes()
    try:
        values = _load_yaml(content, _SkippingLoader if skip_objects else _PlainLoader)
    except Exception as error:  # a damaged file can cause any error
        reason = one_line(str(error))[:200] or type(error).__name__
        raise ValueError(f"{path} is not valid YAML: {reason}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{path} holds a {type(values).__name__}, not a mapping of settings")
    return values


class _PlainLoader(yaml.SafeLoader):
    """Load plain values only; a repeated key and a merge key (<<) are errors.

    The time for nested merge keys grows exponentially with the size of the file.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                raise yaml.constructor.ConstructorError(
                    None, None, "merge keys (<<) are not supported; write the settings out", key.start_mark
                )
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"the key '{key.value}' twice", key.start_mark)
                seen.add((key.tag, key.value))
        return super().construct_mapping(node, deep)


class _SkippingLoader(_PlainLoader):
    """Load None in place of Python objects, and lists in place of tuples."""

    def construct_python(self, kind: str, node: yaml.Node) -> Any:
        is_tuple = kind == "tuple" and isinstance(node, yaml.SequenceNode)
        return self.construct_sequence(node, deep=True) if is_tuple else None  # type: ignore[arg-type]


_SkippingLoader.add_multi_constructor("tag:yaml.org,2002:python/", _SkippingLoader.construct_python)

_MOST_VALUES = 1_000_000


def _num_values(node: yaml.Node, counted: Dict[int, int]) -> int:
    """Return the number of values of a node with its aliases written out; a node inside itself has infinitely many."""
    if isinstance(node, yaml.ScalarNode):
        return 1
    if id(node) not in counted:
        counted[id(node)] = _MOST_VALUES + 1  # while it is being counted
        inside = [part for pair in node.value for part in (pair if isinstance(pair, tuple) else (pair,))]
        counted[id(node)] = 1 + sum(_num_values(part, counted) for part in inside)
    return counted[id(node)]


def _load_yaml(content: bytes, loader: Type[yaml.SafeLoader]) -> Any:
    """Return the values of a YAML text without executing code; merge keys, repeated keys and aliases that stand for too
    many values are errors."""
    values = yaml.load(content, loader)
    node = yaml.compose(content, loader)
    if node is not None and _num_values(node, {}) > _MOST_VALUES:
        raise ValueError(f"its aliases (*) stand for more than {_MOST_VALUES} values; write the settings out")
    return values
