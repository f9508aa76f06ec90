"""Fixtures: the module isaacgym, and small robots of our own."""

import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PACKAGE))
sys.path.insert(0, str(PACKAGE / "tests"))


@pytest.fixture
def gymapi():
    """The module isaacgym.gymapi; the modules of isaacgym are forgotten after the test."""
    import gymapi_mujoco

    gymapi_mujoco.activate()
    try:
        from gymapi_mujoco import legacy
        from isaacgym import gymapi

        yield gymapi
        legacy.remove()
    finally:
        gymapi_mujoco.deactivate()
