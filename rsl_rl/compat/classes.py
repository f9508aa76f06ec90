"""Classes that configurations name."""

from __future__ import annotations

import importlib
import sys
from typing import Any, Dict, Iterable, Mapping, Type

from rsl_rl.config.algorithm import AlgorithmConfig
from rsl_rl.config.extensions import ExtensionConfig
from rsl_rl.utils.registry import import_object, suggest

_PACKAGES = ("rsl_rl.algorithms", "rsl_rl.modules", "rsl_rl.runners", "rsl_rl.models")
_RUNNER_MODULE = "rsl_rl.runners.on_policy_runner"
"""Module whose names rsl_rl 1 to 3.2 looked up; clients put theirs there."""


def resolve_class(name: Any, near: Iterable[Any] = ()) -> Any:
    """Return the class that ``name`` stands for; what is no text is returned as it is.

    A name is "package.module:Class", "package.module.Class", or bare: that of a class of this package, or of one in the
    module of an object in ``near`` or of the program that runs. An unknown name is a ValueError.
    """
    if not isinstance(name, str):
        return name
    if ":" in name or "." in name:
        return _qualified(name)
    modules = [sys.modules.get(_RUNNER_MODULE), *(importlib.import_module(package) for package in _PACKAGES)]
    modules += [sys.modules.get(type(thing).__module__) for thing in near] + [sys.modules.get("__main__")]
    for module in modules:
        if module is not None and hasattr(module, name):
            return getattr(module, name)
    known = [key for module in modules[1:3] for key in dir(module) if key[0].isupper()]
    raise ValueError(
        f"class_name='{name}' is unknown; give a class, or its place as 'package.module:Class'.{suggest(name, known)}"
    )


def settings_for(base: Type, cls: Type, arguments: Mapping[str, Any]) -> Type:
    """Return a config class that builds a client's class, with further arguments for its constructor."""

    def build(self: Any, *args: Any, **kwargs: Any) -> Any:
        return base.build(self, *args, **{**arguments, **kwargs})

    def build_for(self: Any, cfg: Any, env: Any, device: Any) -> Any:
        return import_object(self.builds).from_env(cfg, env, device, **arguments)

    def build_extension(self: Any, env: Any, policy: Any, device: Any) -> Any:
        return cls.from_env(self, env=env, policy=policy, device=device, **arguments)

    members: Dict[str, Any] = {"builds": cls, "build": build, "__module__": cls.__module__}
    if issubclass(base, AlgorithmConfig):
        members["build_for"] = build_for
    if issubclass(base, ExtensionConfig):
        members["build"] = build_extension
    return type(f"{cls.__name__}Settings", (base,), members)


def _qualified(name: str) -> Any:
    module_name, _, path = name.partition(":")
    if path:
        return _attribute(importlib.import_module(module_name), path, name)
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        module_name = ".".join(parts[:cut])
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if not f"{module_name}.".startswith(f"{error.name}."):
                raise  # the module is there, and misses another one
            continue
        return _attribute(module, ".".join(parts[cut:]), name)
    raise ValueError(f"class_name='{name}': there is no module '{parts[0]}'; install its package or correct the name")


def _attribute(module: Any, path: str, name: str) -> Any:
    thing = module
    for part in path.split("."):
        if not hasattr(thing, part):
            raise ValueError(f"class_name='{name}': {module.__name__} has no '{path}'.{suggest(part, dir(thing))}")
        thing = getattr(thing, part)
    return thing
