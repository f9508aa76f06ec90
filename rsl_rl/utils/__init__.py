"""Utilities without knowledge of learning or simulation. This file imports no torch, so that --help is fast."""

from typing import Any

from rsl_rl.utils.public_names import former_path, public_name

__all__ = ["split_and_pad_trajectories", "unpad_trajectories"]  # pyright: ignore[reportUnsupportedDunderAll]

_OWN = {name: f"rsl_rl.utils.trajectories:{name}" for name in __all__}

__path__.append(former_path(__name__))


def __getattr__(name: str) -> Any:
    return public_name(__name__, name, _OWN)
