"""The command `rsl-rl sweep`: search hyper-parameters."""

from rsl_rl.cli.sweep.command import main

__all__ = ["main"]
