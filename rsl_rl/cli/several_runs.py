"""Checks of commands that start several trainings."""

from __future__ import annotations

import os
from typing import Sequence


def require_seeds(seeds: Sequence[int], argv: Sequence[str]) -> None:
    """Raise a ValueError for seeds that are missing or named twice, and for --seed beside them."""
    if not seeds:
        raise ValueError("--seeds is empty; give one or several numbers, such as --seeds 1 2 3")
    outside = [seed for seed in seeds if not 0 <= seed < 2**32]
    if outside:
        raise ValueError(f"--seeds {outside[0]}: give whole numbers from 0 to {2**32 - 1}")
    twice = [seed for i, seed in enumerate(seeds) if seed in seeds[:i]]
    if twice:
        raise ValueError(f"--seeds names {twice[0]} twice; name each seed once")
    if any(word.partition("=")[0] == "--seed" for word in argv):
        raise ValueError("--seed and --seeds exclude each other; use only one of them")


def reject_launcher(what: str) -> None:
    """Raise a ValueError for a process that torchrun has started with others."""
    size = os.environ.get("WORLD_SIZE", "1")
    if size != "1":
        raise ValueError(
            f"{what} starts processes of its own, and WORLD_SIZE={size} says that torchrun started this one; start it "
            "without torchrun"
        )
