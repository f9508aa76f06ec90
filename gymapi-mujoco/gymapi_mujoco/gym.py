"""The class ``gymapi.Gym``."""

from __future__ import annotations

from typing import Any

from gymapi_mujoco.gym_build import Building
from gymapi_mujoco.gym_graphics import Graphics
from gymapi_mujoco.gym_lookup import Lookup
from gymapi_mujoco.gym_tensors import Tensors


class Gym(Building, Lookup, Tensors, Graphics):
    """The calls of Isaac Gym; one that is not provided is an AttributeError that names it."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"Gym.{name} is not provided by gymapi-mujoco")
