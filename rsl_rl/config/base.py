"""What every config has in common."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, ClassVar

from rsl_rl.utils.registry import import_object


class Config:
    """A frozen dataclass of settings that builds the object it describes.

    Configs hold plain values and import nothing but the standard library, so that a command line over them answers at
    once. ``builds`` names the class; a package of your own can subclass a config, add fields and point ``builds`` at
    its own class.
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
