"""Subclasses of this version's classes that stand for them where clients of rsl_rl 1 to 5 name them."""

from __future__ import annotations

from abc import ABCMeta
from typing import Any


class Facade(ABCMeta):
    """Make objects and subclasses of the class that ``stands_for`` names those of the facade too."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return cls.__subclasscheck__(type(instance))

    def __subclasscheck__(cls, subclass: type) -> bool:
        return cls in subclass.__mro__ or vars(cls).get("stands_for") in subclass.__mro__
