"""Heights of the ground, against MuJoCo's rays."""

import mujoco
import numpy as np
import pytest
import torch

from configs.go2_rough import TERRAIN
from rsl_rl.robots.go2 import GO2
from rsl_rl.terrain import Ground, build_terrain
from rsl_rl.terrain.ground import MIRROR, GridGround, ScanGrid
from rsl_rl.utils.height_field import HeightField
from rsl_rl.utils.mujoco_model import load_model

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def terrain():
    return build_terrain(TERRAIN)


@pytest.fixture(scope="module")
def cast(terrain):
    """A function that casts rays down from 20 m at x, y [K] and returns the heights that they hit."""
    model = load_model(GO2.model_path, terrain.ground)
    data, geom = mujoco.MjData(model), np.zeros(1, dtype=np.int32)
    data.qpos[2] = 100.0  # the robot is out of the way
    mujoco.mj_forward(model, data)

    def heights(x, y):
        down = np.array([0.0, 0.0, -1.0])
        starts = np.stack((x, y, np.full_like(x, 20.0)), axis=1).astype(np.float64)
        return np.array([20 - mujoco.mj_ray(model, data, start, down, None, 1, -1, geom) for start in starts])

    return heights


def test_scan_equals_ray_casting(terrain, cast):
    draw = torch.Generator().manual_seed(0)
    position = torch.rand(20, 2, generator=draw) * torch.tensor([60.0, 84.0]) - torch.tensor([30.0, 42.0])
    heading = torch.nn.functional.normalize(torch.randn(20, 2, generator=draw))
    x, y = ScanGrid(CPU)(position, heading)
    assert x.shape == (20, len(MIRROR))
    ours = GridGround(terrain.ground, CPU).height_at(x, y).flatten().numpy()
    rays = cast(x.flatten().numpy(), y.flatten().numpy())
    assert (ours != 0).mean() > 0.4 and np.ptp(ours) > 1.0
    assert np.abs(ours - rays).max() < 0.001  # 0.02 is asked for


def test_scan_is_turned_and_mirrored_with_the_robot():
    x, y = ScanGrid(CPU)(torch.tensor([[1.0, 2.0], [1.0, 2.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    assert (x[0].min(), x[0].max(), y[0].min(), y[0].max()) == pytest.approx((0.2, 1.8, 1.5, 2.5))
    assert (x[1].min(), x[1].max(), y[1].min(), y[1].max()) == pytest.approx((0.5, 1.5, 1.2, 2.8))
    mirror = list(MIRROR)
    torch.testing.assert_close(x[0, mirror], x[0])
    torch.testing.assert_close(y[0, mirror] - 2.0, 2.0 - y[0])


def test_plane_returns_the_coordinate_itself():
    points = torch.randn(5, 4, 3)
    assert Ground().height_above(points).data_ptr() == points[..., 2].data_ptr()
    assert (Ground().height_at(points[..., 0], points[..., 1]) == 0).all()


def test_outside_the_grid_and_for_broken_robots_there_is_a_height():
    ground = GridGround(HeightField(np.array([[0.0, 1.0], [2.0, 3.0]], dtype=np.float32), 0.5, (-1.0, 4.0)), CPU)
    x = torch.tensor([-9.0, 9.0, 9.0, -1.0, torch.nan, torch.inf])
    y = torch.tensor([-9.0, -9.0, 99.0, 4.5, 0.0, torch.nan])
    torch.testing.assert_close(ground.height_at(x, y), torch.tensor([0.0, 2.0, 3.0, 1.0, 0.0, 2.0]), atol=0.01, rtol=0)
