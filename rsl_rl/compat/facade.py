"""Subclasses of this version's classes that stand for them where clients of rsl_rl 1 to 5 name them."""

from __future__ import annotations

from abc import ABCMeta
from typing import Any


class Facade(ABCMeta):
    """Make objects and subclasses of the class that ``stands_for`` names those of the facade too."""

    def __instancecheck__(cls, instance: Any) -> bool:
        stands_for = vars(cls).get("stands_for")
        return super().__instancecheck__(instance) or (stands_for is not None and isinstance(instance, stands_for))

    def __subclasscheck__(cls, subclass: type) -> bool:
        stands_for = vars(cls).get("stands_for")
        return super().__subclasscheck__(subclass) or (stands_for is not None and issubclass(subclass, stands_for))
