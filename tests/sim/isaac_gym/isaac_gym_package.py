"""The package gymapi-mujoco of this repository in Isaac Gym's place."""

import sys
from pathlib import Path
from typing import Iterator

import pytest

PACKAGE = Path(__file__).resolve().parents[3] / "gymapi-mujoco"


def instead_of_isaac_gym(monkeypatch: pytest.MonkeyPatch) -> Iterator[list]:
    """Give this process the module ``isaacgym``, for a fixture to yield from; gives the names of the calls made.

    A robot that diverges is reported as NaN, as by PhysX.
    """
    monkeypatch.syspath_prepend(str(PACKAGE))
    monkeypatch.setenv("GYMAPI_MUJOCO_DIVERGED", "nan")
    monkeypatch.setenv("GYMAPI_MUJOCO_LEGACY", "0")
    import gymapi_mujoco
    from gymapi_mujoco.gym import Gym

    _forget()
    gymapi_mujoco.activate()
    calls: list = []

    def recorded(gym: Gym, name: str) -> object:
        if not name.startswith("_"):
            calls.append(name)
        return object.__getattribute__(gym, name)

    monkeypatch.setattr(Gym, "__getattribute__", recorded, raising=False)
    try:
        yield calls
    finally:
        _forget()
        gymapi_mujoco.deactivate()


def _forget() -> None:
    """Drop the modules that have imported ``isaacgym``."""
    for name in [name for name in sys.modules if name.startswith("rsl_rl.sim.isaacgym.")]:
        del sys.modules[name]
