"""Storage of rollouts, returns and mini-batches."""

from typing import Any, List

from rsl_rl.storage.mini_batches import MiniBatch
from rsl_rl.storage.rollout import Column, GroupSpec, Transition
from rsl_rl.utils.public_names import former_path, public_name
from rsl_rl.utils.trajectories import split_and_pad_trajectories, unpad_trajectories

_OWN = {"RolloutStorage": "rsl_rl.storage.rollout:RolloutStorage"}

__all__ = [
    "Column",
    "GroupSpec",
    "MiniBatch",
    "RolloutStorage",  # pyright: ignore[reportUnsupportedDunderAll]
    "Transition",
    "split_and_pad_trajectories",
    "unpad_trajectories",
]

__path__.append(former_path(__name__))


def __getattr__(name: str) -> Any:
    return public_name(__name__, name, _OWN)


def __dir__() -> List[str]:
    return __all__
