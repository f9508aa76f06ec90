"""The environment interface between learning and simulation."""

from typing import Any, List

from rsl_rl.env.contract import ContractError, check_vec_env
from rsl_rl.env.vec_env import StepResult
from rsl_rl.utils.public_names import public_name

_OWN = {
    "VecEnv": "rsl_rl.env.vec_env:VecEnv",
    "as_vec_env": "rsl_rl.env.adapters:as_vec_env",
    "check_env": "rsl_rl.env.check:check_env",
}

__all__ = ["ContractError", "StepResult", "VecEnv", "as_vec_env", "check_env", "check_vec_env"]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    return public_name(__name__, name, _OWN)


def __dir__() -> List[str]:
    return __all__
