"""Assets: order of bodies and DoFs, merged links, properties, and what is refused."""

import numpy as np
import pytest
from robots import ARM, GO2, World, box_urdf


@pytest.fixture
def arm(tmp_path):
    path = tmp_path / "arm.urdf"
    path.write_text(ARM)
    return path


def test_asset_order_is_depth_first_with_children_sorted_by_joint_name(gymapi, arm):
    world = World(gymapi, arm, 1)
    names = world.gym.get_asset_rigid_body_names(world.asset)
    assert names == ["base", "upper", "tool", "wheel", "slider"]
    assert world.gym.get_asset_dof_names(world.asset) == ["a_hinge", "Z_spin", "b_slide"]
    assert world.gym.get_asset_joint_names(world.asset) == ["a_hinge", "tool_fixed", "Z_spin", "b_slide"]
    assert world.gym.find_actor_rigid_body_handle(world.envs[0], 0, "slider") == 4
    assert world.gym.find_actor_rigid_body_handle(world.envs[0], 0, "nothing") == -1


def test_collapsed_asset_merges_mass_inertia_and_shapes(gymapi, arm):
    merged = World(gymapi, arm, 1, collapse_fixed_joints=True).asset
    apart = World(gymapi, arm, 1).asset
    assert merged.body_names == ["base", "upper", "wheel", "slider"]
    upper, link, tool = merged.bodies[1], apart.bodies[1], apart.bodies[2]
    turn = np.array([[np.cos(0.4), 0, np.sin(0.4)], [0, 1, 0], [-np.sin(0.4), 0, np.cos(0.4)]])
    at = turn @ tool.com + [0, 0, -0.25]
    com = (0.7 * link.com + 0.2 * at) / 0.9
    np.testing.assert_allclose(upper.mass, 0.9)
    np.testing.assert_allclose(upper.com, com, atol=1e-12)
    inertia = np.zeros((3, 3))
    for mass, own, place in ((0.7, link.inertia, link.com), (0.2, turn @ tool.inertia @ turn.T, at)):
        d = place - com
        inertia += own + mass * (d @ d * np.eye(3) - np.outer(d, d))
    np.testing.assert_allclose(upper.inertia, inertia, atol=1e-12)
    assert len(upper.shapes) == 2
    np.testing.assert_allclose(merged.bodies[2].pos, turn @ [0, 0, -0.05] + [0, 0, -0.25], atol=1e-12)


def test_density_of_a_link_gives_its_mass_and_inertia(gymapi, tmp_path):
    text = box_urdf(1.0)
    start, end = text.index("<inertial>"), text.index("</inertial>")
    (tmp_path / "box.urdf").write_text(text[:start] + '<inertial><density value="400"/>' + text[end:])
    body = World(gymapi, tmp_path / "box.urdf", 1).asset.bodies[0]
    np.testing.assert_allclose(body.mass, 400 * 0.2**3)
    np.testing.assert_allclose(np.diag(body.inertia), 400 * 0.2**5 / 6)
    (tmp_path / "bare.urdf").write_text(text[:start] + "<inertial>" + text[end:])
    assert World(gymapi, tmp_path / "bare.urdf", 1, density=50.0).asset.bodies[0].mass == pytest.approx(50 * 0.2**3)


def test_link_that_must_not_collapse_stays_a_body(gymapi, tmp_path):
    path = tmp_path / "arm.urdf"
    path.write_text(
        ARM.replace('name="tool_fixed" type="fixed"', 'name="tool_fixed" type="fixed" dont_collapse="true"')
    )
    assert "tool" in World(gymapi, path, 1, collapse_fixed_joints=True).asset.body_names


def test_dof_properties_are_those_of_the_urdf(gymapi, arm):
    world = World(gymapi, arm, 1, armature=0.02)
    props = world.gym.get_asset_dof_properties(world.asset)
    assert props.dtype.names[:4] == ("hasLimits", "lower", "upper", "driveMode")
    np.testing.assert_array_equal(props["hasLimits"], [True, False, True])
    np.testing.assert_allclose(props["lower"][[0, 2]], [-0.5, -0.1], rtol=1e-6)
    np.testing.assert_allclose(props["upper"][[0, 2]], [1.0, 0.2], rtol=1e-6)
    np.testing.assert_allclose(props["effort"], [10, 0, 50])
    np.testing.assert_allclose(props["velocity"], [5, 0, 2])
    np.testing.assert_allclose(props["damping"], [0.2, 0, 0], rtol=1e-6)
    np.testing.assert_allclose(props["armature"], 0.02, rtol=1e-6)
    np.testing.assert_array_equal(props["driveMode"], 3)


def test_go2_has_its_mass_and_limits(gymapi):
    world = World(gymapi, GO2, 1, collapse_fixed_joints=True)
    bodies = world.gym.get_actor_rigid_body_properties(world.envs[0], 0)
    np.testing.assert_allclose(sum(body.mass for body in bodies), 15.017, rtol=1e-5)  # Unitree's figure
    efforts = world.gym.get_asset_dof_properties(world.asset)["effort"]
    np.testing.assert_allclose(efforts[:3], [23.7, 23.7, 45.43], rtol=1e-6)
    assert world.gym.get_asset_dof_names(world.asset)[:4] == [
        "FL_hip_joint", "FL_thigh_joint", "FL_calf_joint", "FR_hip_joint",
    ]  # fmt: skip


def test_cylinder_is_replaced_by_a_capsule_on_request(gymapi, arm):
    kinds = [shape.kind for _, shape in World(gymapi, arm, 1, replace_cylinder_with_capsule=True).asset.shapes]
    assert kinds == ["box", "capsule", "sphere"]
    assert [shape.kind for _, shape in World(gymapi, arm, 1).asset.shapes] == ["box", "cylinder", "sphere"]


def test_link_without_inertial_has_that_of_its_shapes(gymapi, tmp_path):
    text = box_urdf().replace(box_urdf()[box_urdf().index("<inertial>") : box_urdf().index("<collision>")], "")
    (tmp_path / "box.urdf").write_text(text)
    asset = World(gymapi, tmp_path / "box.urdf", 1, density=500.0).asset
    mass = 500 * 0.2**3
    np.testing.assert_allclose(asset.masses, mass)
    np.testing.assert_allclose(asset.inertias[0], np.eye(3) * mass * 0.2**2 / 6, atol=1e-9)


def test_mjcf_asset_has_the_bodies_and_joints_of_the_file(gymapi):
    world = World(gymapi, GO2.with_suffix(".xml"), 2).prepare()
    assert world.gym.get_asset_dof_count(world.asset) == 12
    assert world.gym.get_asset_rigid_body_names(world.asset)[0] == "trunk"
    np.testing.assert_allclose(world.asset.masses.sum(), 15.017, rtol=1e-4)
    world.step(2)
    assert world.root[0, 2] < 1.0


def test_mjcf_asset_may_name_a_material_that_its_file_does_not_have(gymapi, tmp_path):
    geom = '<geom type="sphere" size="0.1" material="gone"/>'
    (tmp_path / "ball.xml").write_text(
        f'<mujoco><worldbody><body name="ball"><freejoint/>{geom}</body></worldbody></mujoco>'
    )
    world = World(gymapi, tmp_path / "ball.xml", 1).prepare()
    world.step(2)
    assert world.root[0, 2] < 1.0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('type="prismatic"', 'type="planar"', "joint 'b_slide' is planar; it can be revolute"),
        ('<child link="slider"/>', '<child link="slidr"/>', "'b_slide' has the child 'slidr', which is not a link"),
        ('<sphere radius="0.05"/>', '<mesh filename="package://arm/meshes/no.stl"/>', "names the mesh .*no.stl"),
        ("</robot>", "", "not a valid URDF file"),
        ('<child link="slider"/>', '<child link="upper"/>', "has one root link, and this has 2: base, slider"),
    ],
)
def test_broken_urdf_is_refused_with_the_place(gymapi, tmp_path, old, new, message):
    (tmp_path / "arm.urdf").write_text(ARM.replace(old, new))
    with pytest.raises(ValueError, match=message):
        World(gymapi, tmp_path / "arm.urdf", 1)


def test_missing_or_unknown_asset_file_is_refused(gymapi, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no file .*robot\.urdf"):
        World(gymapi, tmp_path / "robot.urdf", 1)
    (tmp_path / "robot.usd").write_text("")
    with pytest.raises(NotImplementedError, match=r"robot\.usd is neither \.urdf nor"):
        World(gymapi, tmp_path / "robot.usd", 1)
