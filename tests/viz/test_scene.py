import mujoco
import pytest

from rsl_rl.robots import ROBOTS
from rsl_rl.viz.scene import height_to_look_at, scale_of


def test_the_camera_is_as_far_away_as_the_robot_is_large():
    models = {name: mujoco.MjModel.from_xml_path(str(ROBOTS.load(name).model_path)) for name in ("go2", "h1")}
    assert (scale_of(models["go2"]), height_to_look_at(models["go2"])) == pytest.approx((1.0, 0.25))
    assert 1.5 < scale_of(models["h1"]) < 2.5 and 0.6 < height_to_look_at(models["h1"]) < 1.0  # of 1.8 m
