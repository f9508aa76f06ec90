"""A module that old clients import and do not use; it has no names here."""

from typing import Any


def __getattr__(name: str) -> Any:
    raise AttributeError(f"rlgpu.{name} is not provided by gymapi-mujoco")
