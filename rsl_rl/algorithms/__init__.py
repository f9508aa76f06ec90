"""Learning algorithms."""

from typing import Any, List

from rsl_rl.algorithms.algorithm import Algorithm, UpdateResult
from rsl_rl.algorithms.extension import Extension
from rsl_rl.utils.public_names import public_name

_OWN = {
    "GRPO": "rsl_rl.algorithms.grpo:GRPO",
    "PPO": "rsl_rl.algorithms.ppo:PPO",
    "Distillation": "rsl_rl.algorithms.distillation:Distillation",
}

__all__ = ["GRPO", "PPO", "Algorithm", "Distillation", "Extension", "UpdateResult"]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    return public_name(__name__, name, _OWN)


def __dir__() -> List[str]:
    return __all__
