"""Settings of a config as attributes of the object that it configures."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Callable, Sequence, Type, TypeVar

T = TypeVar("T")


def config_attributes(config_class: Any, *except_for: str, fixed: Sequence[str] = ()) -> Callable[[Type[T]], Type[T]]:
    """Give a class a property for each field of a config, but for ``except_for``.

    Reading one reads ``self.cfg``; writing one replaces ``self.cfg``, whose checks apply. Those in ``fixed`` cannot be
    written: they are read when the object is constructed.
    """

    def add_properties(cls: Type[T]) -> Type[T]:
        for field in fields(config_class):
            if field.name not in except_for:
                setattr(cls, field.name, _property(field.name, field.name in fixed))
        return cls

    return add_properties


def _property(name: str, is_fixed: bool) -> property:
    def read(self: Any) -> Any:
        return getattr(self.cfg, name)

    def write(self: Any, value: Any) -> None:
        self.cfg = replace(self.cfg, **{name: value})

    return property(read, None if is_fixed else write, doc=f"The setting ``{name}``.")
