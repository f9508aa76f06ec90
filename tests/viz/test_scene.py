import mujoco
import pytest

from rsl_rl.robots import ROBOTS
from rsl_rl.viz.scene import draw_faster, height_to_look_at, scale_of


def test_the_camera_is_as_far_away_as_the_robot_is_large():
    models = {name: mujoco.MjModel.from_xml_path(str(ROBOTS.load(name).model_path)) for name in ("go2", "h1")}
    assert (scale_of(models["go2"]), height_to_look_at(models["go2"])) == pytest.approx((1.0, 0.25))
    assert 1.5 < scale_of(models["h1"]) < 2.5 and 0.6 < height_to_look_at(models["h1"]) < 1.0  # of 1.8 m


PLANES = """
<mujoco>
  <statistic extent="2"/>
  <visual>
    <map zfar="30"/>
    <quality numslices="{slices}" shadowsize="4096"/>
  </visual>
  <asset>
    <texture name="tiles" type="2d" builtin="checker" rgb1="0 0 0" rgb2="1 1 1" width="8" height="8"/>
    <material name="uniform" texture="tiles" texuniform="true"/>
    <material name="stretched" texture="tiles"/>
    <material name="plain"/>
  </asset>
  <worldbody>
    <light type="{light}"/>
    <geom type="plane" size="0 0 1"/>
    <geom type="plane" size="0 0 1" material="uniform"/>
    <geom type="plane" size="0 0 1" material="plain"/>
    <geom type="plane" size="0 0 1" material="stretched"/>
    <geom type="plane" size="0 5 1"/>
    <geom type="plane" size="5 5 1"/>
    <geom type="sphere" size="1"/>
  </worldbody>
</mujoco>
"""


def test_only_infinite_planes_that_look_the_same_become_finite():
    model = mujoco.MjModel.from_xml_string(PLANES.format(slices=28, light="directional"))
    before = model.geom_size.copy()
    draw_faster(model, 10.0)
    assert (model.geom_size[:3, :2] == 30 * 2 + 10).all() and (model.geom_size[3:] == before[3:]).all()
    assert (model.vis.quality.numslices, model.vis.quality.shadowsize) == (20, 2048)


def test_planes_under_a_spotlight_stay_infinite_and_coarse_shapes_stay_coarse():
    model = mujoco.MjModel.from_xml_string(PLANES.format(slices=9, light="spot"))
    before = model.geom_size.copy()
    draw_faster(model, 10.0)
    assert (model.geom_size == before).all() and model.vis.quality.numslices == 9
