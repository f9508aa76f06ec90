"""For code written for rsl_rl 2.3 to 3, see rsl_rl.compat.former_names; the networks are in rsl_rl.modules."""

from typing import Any

from rsl_rl.compat.former_names import find


def __getattr__(name: str) -> Any:
    return find("rsl_rl.networks", name)
