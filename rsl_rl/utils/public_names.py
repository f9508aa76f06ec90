"""What the public names of a package stand for, and where modules of earlier versions are."""

from __future__ import annotations

import importlib
import os
from abc import ABCMeta
from typing import Any, Mapping, Optional

from rsl_rl.utils.registry import import_object


def former_path(package: str) -> str:
    """Return the folder in rsl_rl.compat of the modules that a package has in rsl_rl 1 to 5 and not here; the package
    appends it to its ``__path__``."""
    root = os.path.dirname(os.path.dirname(__file__))
    return os.path.join(root, "compat", "paths", *package.split(".")[1:])


def public_name(package: str, name: str, own: Mapping[str, str] = {}) -> Any:
    """Return the class or function behind a public name of a package; an unknown name is an AttributeError.

    ``own`` are the places of this version's classes. In rsl_rl.compat some of them have a subclass that also takes what
    programs for rsl_rl 1 to 5 pass, and that is returned; so are names that only earlier versions have. Where
    rsl_rl.compat cannot be imported, the classes are those of ``own``.
    """
    if name.startswith("_"):
        raise AttributeError(f"module '{package}' has no attribute '{name}'")
    try:
        names = importlib.import_module("rsl_rl.compat.former_names")
    except ImportError:
        if name not in own:
            raise AttributeError(f"module '{package}' has no attribute '{name}'") from None
        return import_object(own[name])
    return names.find(package, name, own)


class FormerCalls(ABCMeta):
    """Metaclass of classes that rsl_rl 1 to 5 have in the same file, with another constructor: called with arguments of
    an earlier version, the class that stands for it in rsl_rl.compat is constructed."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        former = former_class(cls, args, kwargs)
        return super().__call__(*args, **kwargs) if former is None else former(*args, **kwargs)


def former_class(cls: type, args: Any, kwargs: Any) -> Optional[type]:
    """Return the class in rsl_rl.compat that takes these arguments in place of ``cls``; None if ``cls`` itself does."""
    try:
        names = importlib.import_module("rsl_rl.compat.former_names")
    except ImportError:
        return None
    return names.former_class(cls, args, kwargs)
