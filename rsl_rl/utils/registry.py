"""Find implementations by name; a module is imported when it is used."""

from __future__ import annotations

import difflib
import importlib.abc
import importlib.machinery
import inspect
import os
import re
import sys
import sysconfig
import warnings
from typing import Any, Dict, Iterable, List, Mapping, Sequence, Tuple

MOVED = {
    "rsl_rl.config.acceleration": "rsl_rl.config.learn",
    "rsl_rl.config.actuators": "rsl_rl.config.sim",
    "rsl_rl.config.command_limit": "rsl_rl.config.mdp",
    "rsl_rl.config.distillation": "rsl_rl.config.algorithm",
    "rsl_rl.config.gymnasium_task": "rsl_rl.config.task",
    "rsl_rl.config.progress": "rsl_rl.config.experiment",
    "rsl_rl.config.terms": "rsl_rl.config.mdp",
    "rsl_rl.sim.isaac_gym": "rsl_rl.sim.isaacgym.engine",
    "rsl_rl.sim.parameters": "rsl_rl.sim.base",
    "rsl_rl.tasks.robots": "rsl_rl.robots",
    "rsl_rl.utils.rotations": "rsl_rl.utils.tensors",
    "rsl_rl.utils.uniform": "rsl_rl.utils.tensors",
}
"""Modules that programs and configs of users name, and where their content is now."""


class _MovedModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Import a module by its former name too."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        return importlib.machinery.ModuleSpec(fullname, self) if fullname in MOVED else None

    def exec_module(self, module: Any) -> None:
        old = module.__name__
        sys.modules[old] = importlib.import_module(MOVED[old])
        warnings.warn(f"{old} is deprecated; import {MOVED[old]}", DeprecationWarning, stacklevel=2)


sys.meta_path.append(_MovedModules())


def suggest(name: str, known: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the closest of the known names, or an empty string."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" Did you mean '{close[0]}'?" if close else ""


def import_object(path: Any) -> Any:
    """Import ``"package.module:name"``; errors inside the module, such as a missing package, are not caught.

    An object that is not a string is returned as it is.
    """
    if not isinstance(path, str):
        return path
    module_name, _, attribute = path.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), attribute)):
        raise ValueError(f"'{path}' is not an import path; write it as 'package.module:name'")
    try:
        module = importlib.import_module(MOVED.get(module_name, module_name))
    except ModuleNotFoundError as error:
        if not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise ValueError(
            f"'{path}' names the module '{error.name}', which is not there; correct the path or install its package"
        ) from error
    if not hasattr(module, attribute):
        raise ValueError(f"module '{module_name}' has no '{attribute}'.{suggest(attribute, dir(module))}")
    return getattr(module, attribute)


def is_of_python(function: Any) -> bool:
    """Return whether a function or class is not written in Python, or part of Python's own library, such as
    timeit.timeit."""
    if inspect.isbuiltin(function):
        return True
    if not (inspect.isroutine(function) or isinstance(function, type)):
        return False
    module = sys.modules.get(function.__module__ or "")
    file = getattr(module, "__file__", None)
    if file is None:
        return getattr(module, "__name__", "") in sys.builtin_module_names
    return file.startswith(sysconfig.get_paths()["stdlib"] + os.sep) and "-packages" not in file


class Registry:
    """Names of implementations of one kind, each with its ``"module:object"``.

    A name with a colon is used as such a path, so that other packages need no registration. ``base`` is the path of
    the class from which every implementation is derived; with ``instances`` they are instances of it.
    """

    def __init__(self, kind: str, entries: Mapping[str, str], base: str = "builtins:object", instances: bool = False):
        self.kind = kind
        self._entries: Dict[str, Any] = dict(entries)
        self._base, self._instances = base, instances

    def names(self) -> List[str]:
        return sorted(self._entries)

    def add(self, name: str, found: Any) -> None:
        """Give an object of this process a name, in place of one of before."""
        self._entries[name] = self._checked(name, found)

    def load(self, name: str) -> Any:
        """Import the object of a name; an unknown name, or one of something else, is a ValueError."""
        if ":" in name:
            return self._checked(name, import_object(name))
        if name not in self._entries:
            known = ", ".join(self.names())
            raise ValueError(f"unknown {self.kind} '{name}'; known: {known}.{suggest(name, self._entries)}")
        return import_object(self._entries[name])

    def _checked(self, name: str, found: Any) -> Any:
        """Return what a path of another package names if it is of this kind."""
        base = import_object(self._base)
        if self._instances or base is object:
            fits, wanted = isinstance(found, base), "an instance of"
        else:
            fits, wanted = isinstance(found, type) and issubclass(found, base), "a class derived from"
        if not fits:
            got = "the class " + found.__qualname__ if isinstance(found, type) else f"a {type(found).__name__}"
            raise ValueError(
                f"the {self.kind} '{name}' is {got}; name {wanted} {base.__module__}.{base.__qualname__}, or one of "
                f"{', '.join(self.names())}"
            )
        return found


_REPEATED_REPETITION = re.compile(r"[*+}|][^()]*\)+[*+{]")
"""A group that holds a repetition or alternatives and is itself repeated: matching it can take exponential time."""


def require_patterns(value: Any, where: str) -> None:
    """Raise a ValueError unless the keys of ``value``, if it is a mapping, are regular expressions."""
    if not isinstance(value, Mapping):
        return
    if not value:
        raise ValueError(f"{where} is empty; give a number, or numbers by pattern of names")
    for pattern in value:
        try:
            re.compile(pattern)
        except (re.error, TypeError) as error:
            raise ValueError(f"{where}: '{pattern}' is not a regular expression ({error}); correct it") from error
        if _REPEATED_REPETITION.search(pattern):
            raise ValueError(
                f"{where}: '{pattern}' repeats a group in which something is repeated or has alternatives, which can "
                "take for ever; write the pattern without that"
            )


def names_of_pattern(pattern: str, names: Sequence[str]) -> Tuple[str, ...]:
    """Return the names that a regular expression matches as a whole."""
    return tuple(name for name in names if re.fullmatch(pattern, name))


_NONE = object()


def values_by_name(value: Any, names: Sequence[str], where: str, others: Any = _NONE) -> Tuple[Any, ...]:
    """Return the value of each name.

    ``value`` is one value for all names, or a mapping from regular expressions to values, of which each name matches
    exactly one as a whole, and each matches a name. With ``others`` a name may match none, and has that value.
    ``where`` is the path in the config, for messages.
    """
    if not isinstance(value, Mapping):
        return (value,) * len(names)
    require_patterns(value, where)
    own = {pattern: names_of_pattern(pattern, names) for pattern in value}
    for pattern, matching in own.items():
        if not matching:
            raise ValueError(f"{where}: '{pattern}' matches none of {', '.join(names)}; correct the pattern")
    values = []
    for name in names:
        patterns = [pattern for pattern, matching in own.items() if name in matching]
        if not patterns and others is not _NONE:
            values.append(others)
            continue
        if len(patterns) != 1:
            several = " and ".join(f"'{pattern}'" for pattern in patterns) or f"none of {', '.join(map(repr, value))}"
            raise ValueError(f"{where}: the name {name} matches {several}; give each name exactly one pattern")
        values.append(value[patterns[0]])
    return tuple(values)
