"""Functions that rsl_rl 1 to 5 have in this module; see rsl_rl.compat.former_names."""

from typing import Any

from rsl_rl.utils.former_names import former_name


def __getattr__(name: str) -> Any:
    return former_name("rsl_rl.utils", name)
