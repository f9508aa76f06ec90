"""For code written for rsl_rl 2.3 to 3, see rsl_rl.compat.former_names; the networks are in rsl_rl.modules."""

from typing import Any

from rsl_rl.utils.former_names import former_name


def __getattr__(name: str) -> Any:
    return former_name(__name__, name)
