"""Functions that rsl_rl 1 to 5 have in this module; see rsl_rl.compat.former_names."""

from typing import Any

from rsl_rl.compat.former_names import find


def __getattr__(name: str) -> Any:
    return find("rsl_rl.utils", name)
