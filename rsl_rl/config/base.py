"""What every config has in common."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, ClassVar, Sequence

from rsl_rl.utils.config_io import convert, declared_types, shown
from rsl_rl.utils.registry import import_object

MOST = 1_000_000_000
"""Largest count that a config takes where nothing smaller is said."""


class Settings:
    """A frozen dataclass of plain values that holds what it declares, however it is made.

    A whole number becomes a float where one is declared, a list a tuple, a mapping a nested config; anything else that
    does not fit, and a number that is not finite, is a ValueError. Configs import nothing heavy, so that a command line
    over them answers at once.
    """

    section: ClassVar[str] = ""
    """Place in a whole config, such as "env.rewards": what messages write before a field's name."""

    def __post_init__(self):
        for name, hint in declared_types(type(self)).items():
            object.__setattr__(self, name, convert(hint, getattr(self, name), _place(self, name)))


class Config(Settings):
    """Settings that build the object they describe.

    ``builds`` names the class; a package of your own can subclass a config, add fields and point ``builds`` at its own
    class.
    """

    builds: ClassVar[str]

    def build(self, *args: Any, **kwargs: Any) -> Any:
        """Call the described class with ``args`` and ``kwargs``, and with this config's fields as keywords."""
        settings = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        return import_object(self.builds)(*args, **kwargs, **settings)


def require(condition: bool, message: str) -> None:
    """Raise a ValueError for a setting that cannot work; ``message`` names the field, the value and the remedy."""
    if not condition:
        raise ValueError(message)


def require_field(cfg: Settings, name: str, condition: bool, message: str) -> None:
    """Raise a ValueError that begins with the field's place and value and goes on with ``message``."""
    if not condition:
        raise ValueError(f"{_place(cfg, name)}={shown(getattr(cfg, name))}{message}")


def require_counts(cfg: Settings, low: int, *names: str, high: int = MOST) -> None:
    for name in names:
        require_field(cfg, name, low <= getattr(cfg, name) <= high, f": give a whole number from {low} to {high}")


def require_within(cfg: Settings, low: float, high: float, *names: str) -> None:
    for name in names:
        require_field(cfg, name, low <= getattr(cfg, name) <= high, f" must lie in [{low:g}, {high:g}]")


def require_positive(cfg: Settings, *names: str) -> None:
    for name in names:
        require_field(cfg, name, getattr(cfg, name) > 0, " must be positive")


def require_not_negative(cfg: Settings, *names: str) -> None:
    for name in names:
        require_field(cfg, name, getattr(cfg, name) >= 0, " must not be negative")


def require_choice(cfg: Settings, allowed: Sequence[str], *names: str) -> None:
    for name in names:
        require_field(cfg, name, getattr(cfg, name) in allowed, f"; allowed: {', '.join(allowed)}")


def require_unique(cfg: Settings, *names: str) -> None:
    for name in names:
        value = getattr(cfg, name)
        require_field(cfg, name, len(set(value)) == len(value), ": name each entry once")


def require_ranges(cfg: Settings, *names: str) -> None:
    """Ask for pairs of a lowest and a highest value."""
    for name in names:
        low, high = getattr(cfg, name)
        require_field(cfg, name, low <= high, ": the first number must not exceed the second")


def _place(cfg: Settings, name: str) -> str:
    return f"{cfg.section}.{name}" if cfg.section else name
