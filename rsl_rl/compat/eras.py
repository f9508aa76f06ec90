"""What a configuration of an earlier version says of itself: its era, its sections, and the classes that it names."""

from __future__ import annotations

import importlib
import sys
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple, Type

from typing_extensions import TypeGuard

from rsl_rl.env.vec_env import Observations, VecEnv
from rsl_rl.utils.registry import suggest


class Era(NamedTuple):
    """What versions of rsl_rl with one major number have in common."""

    major: int

    @property
    def first_iteration(self) -> int:
        """Number of the first update: files are named model_<number>.pt."""
        return 1 if self.major == 1 else 0

    @property
    def joint_grad_norm(self) -> bool:
        """Whether the gradient norm is clipped over actor and critic together."""
        return self.major < 4

    @property
    def ppo_defaults(self) -> Dict[str, Any]:
        """Settings of PPO where a configuration is silent."""
        names = ("num_learning_epochs", "num_mini_batches", "gamma", "entropy_coef", "schedule")
        return dict(zip(names, (1, 1, 0.998, 0.0, "fixed") if self.major < 3 else (5, 4, 0.99, 0.01, "adaptive")))


class UnknownModuleError(ValueError, ImportError):
    """A name whose module is not there."""


class UnknownAttributeError(ValueError, AttributeError):
    """A name whose module is there, and does not have it."""


class Given(NamedTuple):
    """A configuration of an earlier version, and what it is for."""

    cfg: Mapping[str, Any]
    era: Era
    env: VecEnv
    obs: Observations
    near: Tuple[Any, ...]
    """Objects of the client, in whose modules a class may be defined."""
    unused: List[str]
    """Settings without effect here, each with its section; they are added while the configuration is read."""


STD_KEYS = ("stochastic", "init_noise_std", "noise_std_type", "state_dependent_std")
"""Settings of a network that only version 4 has."""


def is_filled(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """Return whether a section of a configuration is there; clients write {} for none."""
    return isinstance(value, Mapping) and len(value) > 0


def filled(value: Any) -> Mapping[str, Any]:
    """Return a section of a configuration, empty if it is not there."""
    return value if is_filled(value) else {}


def is_exact(cfg: Mapping[str, Any]) -> bool:
    """Return whether a configuration asks for the arithmetic of rsl_rl 5.5.1; another value is a ValueError."""
    value = cfg.get("compat")
    if value in (None, {}, ""):
        return False
    if value != "exact":
        raise ValueError(f"compat={value!r} is unknown; give 'exact', or leave it out")
    return True


def era_of(cfg: Mapping[str, Any]) -> Optional[Era]:
    """Return the era that a configuration is written for; None for our own format and all else."""
    if not is_filled(cfg.get("algorithm")):
        return None
    if "num_steps_per_env" in cfg:
        networks = [cfg[name] for name in ("actor", "critic", "student", "teacher") if is_filled(cfg.get(name))]
        if networks:
            return Era(4 if any(key in network for network in networks for key in STD_KEYS) else 5)
        if is_filled(cfg.get("policy")):
            by_group = "obs_groups" in cfg or "actor_obs_normalization" in cfg["policy"]
            return Era(3 if by_group else 2)
    runner = filled(cfg.get("runner"))
    return Era(1) if "policy_class_name" in runner or "algorithm_class_name" in runner else None


# Classes that configurations name

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


def settings_for(base: Type, cls: Type, **members: Any) -> Type:
    """Return a config class that builds a client's class, with further attributes."""
    return type(f"{cls.__name__}Settings", (base,), {"builds": cls, "__module__": cls.__module__, **members})


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
    raise UnknownModuleError(
        f"class_name='{name}': there is no module '{parts[0]}'; install its package or correct the name"
    )


def _attribute(module: Any, path: str, name: str) -> Any:
    thing = module
    for part in path.split("."):
        if not hasattr(thing, part):
            raise UnknownAttributeError(
                f"class_name='{name}': {module.__name__} has no '{path}'.{suggest(part, dir(thing))}"
            )
        thing = getattr(thing, part)
    return thing
