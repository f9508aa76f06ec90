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


@pytest.fixture(params=["cpu", pytest.param("warp", marks=pytest.mark.slow)])
def engine(request, monkeypatch):
    """The engine of the test's simulations: MuJoCo on the CPU, and MuJoCo Warp on Warp's CPU device."""
    if request.param == "warp":
        pytest.importorskip("mujoco_warp")
    monkeypatch.setenv("GYMAPI_MUJOCO_ENGINE", request.param)
    return request.param


@pytest.fixture
def arm(tmp_path):
    """The file of an arm."""
    from robots import ARM

    (tmp_path / "arm.urdf").write_text(ARM)
    return tmp_path / "arm.urdf"


@pytest.fixture
def box(tmp_path):
    """The file of a box of 2 kg."""
    from robots import box_urdf

    (tmp_path / "box.urdf").write_text(box_urdf(2.0))
    return tmp_path / "box.urdf"
