"""The command `rsl-rl zoo`: trained policies with cards."""

from rsl_rl.cli.zoo.command import main

__all__ = ["main"]
