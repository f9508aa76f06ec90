"""Find the functions of terms by name, and bind their parameters."""

from __future__ import annotations

import functools
import inspect
from collections import abc
from dataclasses import fields, is_dataclass
from typing import Any, Callable, Dict, Mapping, Union

from typing_extensions import get_type_hints

from rsl_rl.utils.config_io import convert
from rsl_rl.utils.registry import import_object, is_of_python, suggest


def find_function(name: str, known: Mapping[str, Any], kind: str) -> Any:
    """Find what a term names: an entry of ``known``, or "package.module:function"."""
    if ":" in name:
        return import_object(name)
    if name not in known:
        raise ValueError(f"unknown {kind} '{name}'; known: {', '.join(sorted(known))}.{suggest(name, known)}")
    return known[name]


def bind_named(
    name: str,
    term: Any,
    known: Mapping[str, Any],
    kind: str,
    where: str,
    settings: Mapping[str, Any] = {},
    num_arguments: int = 1,
) -> Callable:
    """Find the function of a term of a config, ``term.func`` or else the name of the term, and bind its parameters."""
    found = find_function(term.func or name, known, kind)
    return bind_term(found, term.params, where, settings, num_arguments)


def settings_of(section: Any) -> Dict[str, Any]:
    """Return what a function gets for its parameters without a default: ``cfg``, the section of the config, and each
    of its settings by name."""
    return {"cfg": section, **{f.name: getattr(section, f.name) for f in fields(section)}}


def bind_term(
    function: Any, params: Mapping[str, Any], where: str, settings: Mapping[str, Any], num_arguments: int = 1
) -> Callable:
    """Return a function, or a class, with its parameters bound; the result takes the first ``num_arguments``.

    A parameter without a default that ``params`` lacks is the setting of that name. A parameter that is in neither, an
    entry of ``params`` that the function does not take, and one that does not fit the type that the function declares
    is a ValueError with the path ``where`` of the term.
    """
    if not callable(function):
        raise ValueError(f"{where} names a {type(function).__name__}; name a function")
    name = getattr(function, "__qualname__", repr(function))
    if is_of_python(function):  # such as input, torch.ones or timeit.timeit, which are for other arguments
        raise ValueError(f"{where}: {name} is not a function of a task; write one that calls it")
    kinds = inspect.Parameter
    try:
        every = inspect.signature(function).parameters.values()
    except ValueError as error:
        raise ValueError(f"{where}: {error}; write a function that calls it") from error
    takes_any = any(parameter.kind is kinds.VAR_KEYWORD for parameter in every)
    positional = [p for p in every if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    arguments = positional[:num_arguments]
    if len(arguments) < num_arguments and not any(p.kind is kinds.VAR_POSITIONAL for p in every):
        raise ValueError(f"{where}: {name} takes {len(arguments)} arguments by position; it gets {num_arguments}")
    by_name = (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)
    own = {p.name: p for p in every if p.kind in by_name and p not in arguments}
    unknown = [key for key in params if key not in own and not takes_any]
    if unknown:
        known = ", ".join(own) or "none"
        raise ValueError(f"{where}.params has '{unknown[0]}'; {name} takes {known}.{suggest(unknown[0], own)}")
    sectioned = {"cfg"} & set(settings)  # given to every function that takes it
    wanted = [key for key, p in own.items() if key not in params and (p.default is kinds.empty or key in sectioned)]
    missing = [key for key in wanted if key not in settings]
    if missing:
        lacked = ", ".join(f"'{key}'" for key in missing)
        raise ValueError(f"{where}: {name} needs {lacked}, which params lacks; give a value in {where}.params")
    hints = _hints(function)
    given = {key: convert(hints.get(key, Any), value, f"{where}.params.{key}") for key, value in params.items()}
    values = {**{key: settings[key] for key in wanted}, **given}
    return functools.partial(function, **values) if values else function


def _hints(function: Any) -> Dict[str, Any]:
    """Return the declared types of parameters that a config can hold, and none if an annotation has an error."""
    try:
        hints = get_type_hints(function.__init__ if inspect.isclass(function) else function, include_extras=True)
    except Exception:  # of another package's function, which can be called nevertheless
        return {}
    return {name: hint for name, hint in hints.items() if _is_plain(hint)}


def _is_plain(hint: Any) -> bool:
    if hasattr(hint, "__metadata__"):  # Annotated
        return _is_plain(hint.__origin__)
    if getattr(hint, "__origin__", None) in (tuple, dict, abc.Mapping, abc.Sequence, Union):
        return all(_is_plain(part) for part in hint.__args__ if part is not Ellipsis)
    return hint in (bool, int, float, str, type(None)) or is_dataclass(hint)
