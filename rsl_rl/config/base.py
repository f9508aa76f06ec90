"""Base classes and checks of configs."""

from __future__ import annotations

import inspect
from abc import ABCMeta
from dataclasses import fields
from typing import Any, ClassVar, Collection, Mapping, Sequence

from rsl_rl.config.aliases import former_setting, with_current_names
from rsl_rl.utils.config_io import convert, declared_types, short_repr
from rsl_rl.utils.registry import import_object, suggest

MAX_COUNT = 1_000_000_000
"""Default limit of counts in a config."""


MAX_ENVS = 10_000_000
"""Largest number of environments at once."""


class _TakesFormerNames(ABCMeta):
    """Class of configs, whose constructors, and so ``dataclasses.replace``, take former names of settings."""

    @property
    def __signature__(cls) -> inspect.Signature:  # for help() and editors
        own = inspect.signature(cls.__init__)
        return own.replace(parameters=list(own.parameters.values())[1:])


def _construct(cls: Any, *args: Any, **kwargs: Any) -> Any:
    return type.__call__(cls, *args, **with_current_names(cls, kwargs, are_keywords=True))


class Settings(metaclass=_TakesFormerNames):
    """Base class of frozen dataclasses whose values are converted to the declared types.

    Integers become floats, lists tuples and mappings nested configs, where these are declared. Other values that do not
    fit, and numbers that are not finite, are a ValueError. Configs do not import torch, so that --help is fast.
    """

    section: ClassVar[str] = ""
    """Path in the complete config, such as "env.rewards"; messages write it before the name of a field."""

    def __post_init__(self):
        for name, hint in declared_types(type(self)).items():
            object.__setattr__(self, name, convert(hint, getattr(self, name), _place(self, name)))

    @classmethod
    def current_names(cls, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return settings of a file under the names of the fields."""
        return with_current_names(cls, values)


# Not in the classes: a type checker knows present names only, so that it finds a misspelt one.
setattr(_TakesFormerNames, "__call__", _construct)  # noqa: B010
setattr(Settings, "__getattr__", former_setting)  # noqa: B010


class Config(Settings):
    """Settings of a class, with a method that constructs it.

    ``builds`` is the path of the class. Another package can derive a config, add fields and set ``builds`` to its own
    class.
    """

    builds: ClassVar[str]

    def build(self, *args: Any, **kwargs: Any) -> Any:
        """Construct the class with ``args``, ``kwargs`` and the fields of this config as keywords."""
        settings = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        return import_object(self.builds)(*args, **kwargs, **settings)


class TaskConfig(Config):
    """Base class of tasks: a config that builds an environment."""

    section: ClassVar[str] = "env"

    num_envs: int

    def build(self, device: str = "cpu", seed: int = 0) -> Any:
        """Return the VecEnv on ``device``, with random numbers from ``seed``."""
        return import_object(self.builds)(self, device=device, seed=seed)


def linear(start: Any, end: Any, progress: Any) -> Any:
    """Return the number, or tensor, at a share from 0 to 1 of the way from ``start`` to ``end``."""
    return start + (end - start) * progress


def require(condition: bool, message: str) -> None:
    """Raise a ValueError with ``message`` unless ``condition`` is true."""
    if not condition:
        raise ValueError(message)


def require_field(cfg: Settings, name: str, condition: bool, message: str) -> None:
    """Raise a ValueError with the path and value of a field, followed by ``message``, unless ``condition`` is true."""
    if not condition:
        raise ValueError(f"{_place(cfg, name)}={short_repr(getattr(cfg, name))}{message}")


def require_counts(cfg: Settings, low: int, *names: str, high: int = MAX_COUNT) -> None:
    for name in names:
        require_field(cfg, name, low <= getattr(cfg, name) <= high, f": give a whole number from {low} to {high}")


def require_within(cfg: Settings, low: float, high: float, *names: str) -> None:
    for name in names:
        require_field(cfg, name, low <= getattr(cfg, name) <= high, f" must lie in [{low:g}, {high:g}]")


def require_positive(cfg: Settings, *names: str) -> None:
    """Require positive numbers; of a mapping or a tuple, all values."""
    for name in names:
        require_field(cfg, name, all(x > 0 for x in _numbers(getattr(cfg, name))), " must be positive")


def require_not_negative(cfg: Settings, *names: str) -> None:
    for name in names:
        require_field(cfg, name, all(x >= 0 for x in _numbers(getattr(cfg, name))), " must not be negative")


def _numbers(value: Any) -> Collection[float]:
    """Return a number, or the values of a mapping or a tuple."""
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, tuple) else (value,)


def require_choice(cfg: Settings, allowed: Sequence[str], *names: str) -> None:
    for name in names:
        value = getattr(cfg, name)
        require_field(cfg, name, value in allowed, f"; allowed: {', '.join(allowed)}.{suggest(str(value), allowed)}")


def require_unique(cfg: Settings, *names: str) -> None:
    for name in names:
        value = getattr(cfg, name)
        require_field(cfg, name, len(set(value)) == len(value), ": name each entry once")


def require_ranges(cfg: Settings, *names: str) -> None:
    """Require pairs of a lowest and a highest value."""
    for name in names:
        low, high = getattr(cfg, name)
        require_field(cfg, name, low <= high, ": the first number must not exceed the second")


def _place(cfg: Settings, name: str) -> str:
    return f"{cfg.section}.{name}" if cfg.section else name
