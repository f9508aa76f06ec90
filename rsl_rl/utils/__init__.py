"""Utilities without knowledge of learning or simulation. This file imports no torch, so that --help is fast."""

from typing import Any

from rsl_rl.utils.public_names import former_path, public_name

__all__ = ["split_and_pad_trajectories", "unpad_trajectories"]  # pyright: ignore[reportUnsupportedDunderAll]

__path__.append(former_path(__name__))


def __getattr__(name: str) -> Any:
    if name in __all__:
        from rsl_rl.utils import trajectories

        return getattr(trajectories, name)
    return public_name(__name__, name)
