"""Base of the value classes of ``gymapi``: declared fields only, floats rounded to 32 bits, as the C++ classes have."""

from __future__ import annotations

import copy
import sys
from typing import Any, Callable, ClassVar, Dict

import numpy as np


def to_float(value: Any) -> float:
    """Return a number, or an array or tensor of one element, rounded to float32.

    The C++ fields are float32: a step of 0.005 s reads as 0.004999999888, and clients depend on it.
    """
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, (str, bytes)) or value is None:
        raise TypeError(f"{value!r} is not a number")
    return float(np.float32(value))


def to_int(value: Any) -> int:
    """Return an integer; floats with a fraction are a TypeError."""
    number = value.item() if hasattr(value, "item") else value
    if isinstance(number, str) or number is None or int(number) != number:
        raise TypeError(f"{value!r} is not an integer")
    return int(number)


_PLAIN: Dict[str, Callable[[Any], Any]] = {"float": to_float, "int": to_int, "bool": bool, "str": str}


class Struct:
    """A class whose annotated attributes are its fields; other attributes are an AttributeError."""

    _converters: ClassVar[Dict[str, Callable[[Any], Any]]] = {}
    _defaults: ClassVar[Dict[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        kinds = {name: kind for name, kind in cls.__annotations__.items() if "ClassVar" not in kind}
        cls._converters = {name: _PLAIN.get(kind) or _checked(cls.__module__, kind) for name, kind in kinds.items()}
        cls._defaults = {name: cls._converters[name](getattr(cls, name)) for name in kinds}

    def __init__(self) -> None:
        for name, value in self._defaults.items():
            self.__dict__[name] = copy.deepcopy(value) if isinstance(value, Struct) else value

    def __setattr__(self, name: str, value: Any) -> None:
        convert = self._converters.get(name)
        if convert is None:
            raise AttributeError(
                f"gymapi.{type(self).__name__} has no attribute '{name}'; it has {', '.join(self._converters)}"
            )
        try:
            self.__dict__[name] = convert(value)
        except (TypeError, ValueError, RuntimeError) as error:
            raise TypeError(f"gymapi.{type(self).__name__}.{name}: {error}") from None

    def __eq__(self, other: Any) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"

    def __deepcopy__(self, memo: Any) -> Any:
        twin = self.__class__.__new__(self.__class__)
        for name, value in self.__dict__.items():
            twin.__dict__[name] = copy.deepcopy(value) if isinstance(value, Struct) else value
        return twin

    def __copy__(self) -> Any:
        return copy.deepcopy(self)


def _checked(module: str, kind: str) -> Callable[[Any], Any]:
    """Return the conversion of a field whose type is a class of the same module, looked up at the first use."""

    def convert(value: Any) -> Any:
        wanted = getattr(sys.modules[module], kind)
        if isinstance(value, wanted):
            return copy.deepcopy(value) if isinstance(value, Struct) else value  # a field is a value of its own
        if hasattr(wanted, "__members__"):  # an enumeration takes its number
            try:
                return wanted(to_int(value))
            except ValueError:
                raise TypeError(f"{value!r} is not one of {', '.join(wanted.__members__)}") from None
        raise TypeError(f"got {type(value).__name__}, and it takes a gymapi.{kind}")

    return convert
