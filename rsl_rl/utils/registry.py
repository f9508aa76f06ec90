"""Find implementations by name; a module is imported when one of its names is used."""

from __future__ import annotations

import difflib
import importlib
from typing import Any, Iterable, List, Mapping

MOVED = {"rsl_rl.sim.isaac_gym": "rsl_rl.sim.isaacgym.engine"}
"""Modules that configs of users may name, and where they are now."""


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


class Registry:
    """Names of implementations of one kind, each with its ``"module:object"``.

    A name with a colon is used as such a path, so that other packages need no registration.
    """

    def __init__(self, kind: str, entries: Mapping[str, str]):
        self.kind = kind
        self._entries = dict(entries)

    def names(self) -> List[str]:
        return sorted(self._entries)

    def load(self, name: str) -> Any:
        """Import the object of a name; an unknown name is a ValueError that lists the known ones."""
        if ":" in name:
            return import_object(name)
        if name not in self._entries:
            known = ", ".join(self.names())
            raise ValueError(f"unknown {self.kind} '{name}'; known: {known}.{suggest(name, self._entries)}")
        return import_object(self._entries[name])
