"""The training loop, checkpoints, inference with trained policies."""

from typing import Any, List

from rsl_rl.runners.rollback import TrainingError
from rsl_rl.utils.public_names import former_path, public_name

_OWN = {"OnPolicyRunner": "rsl_rl.runners.runner:Runner", "Runner": "rsl_rl.runners.runner:Runner"}

__all__ = ["OnPolicyRunner", "Runner", "TrainingError"]  # pyright: ignore[reportUnsupportedDunderAll]

__path__.append(former_path(__name__))


def __getattr__(name: str) -> Any:
    return public_name(__name__, name, _OWN)


def __dir__() -> List[str]:
    return __all__
