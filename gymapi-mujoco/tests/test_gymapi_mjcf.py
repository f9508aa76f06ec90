"""MJCF files as Isaac Gym reads them: motors, springs, what MuJoCo does not know; and input that makes no sense."""

import warnings

import numpy as np
import pytest
import torch
from robots import ARM, World, box_urdf

WALKER = """
<mujoco model="walker">
  <compiler angle="degree" inertiafromgeom="true"/>
  <option timestep="0.01"/>
  <default><joint armature="0.02" damping="0.3" limited="true"/><geom density="400"/></default>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 1" material="nowhere"/>
    <body name="trunk" pos="0 0 1">
      <geom type="sphere" size="0.1"/>
      <body name="left" pos="0 0.1 0">
        <joint name="hip" axis="0 1 0" range="-90 90" stiffness="7"/>
        <geom type="capsule" fromto="0 0 0 0 0 -0.3" size="0.03"/>
        <body name="shin" pos="0 0 -0.3">
          <joint name="knee" axis="0 1 0" range="-120 0"/>
          <geom type="capsule" fromto="0 0 0 0 0 -0.3" size="0.03"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor name="knee_motor" joint="knee" gear="20" ctrllimited="true" ctrlrange="-1 1"/>
    <motor name="hip_motor" joint="hip" gear="45" forcelimited="true" forcerange="-30 40"/>
  </actuator>
</mujoco>
"""


@pytest.fixture
def walker(tmp_path):
    def write(text=WALKER):
        path = tmp_path / "walker.xml"
        path.write_text(text)
        return path

    return write


def test_motors_have_the_order_gears_and_limits_of_the_file(gymapi, walker):
    world = World(gymapi, walker(), 1, fix_base_link=True)
    gym, asset = world.gym, world.asset
    assert gym.get_asset_actuator_count(asset) == 2 and gym.get_asset_dof_names(asset) == ["hip", "knee"]
    assert [gym.get_asset_actuator_joint_name(asset, i) for i in range(2)] == ["knee", "hip"]
    knee, hip = gym.get_asset_actuator_properties(asset)
    assert (knee.motor_effort, hip.motor_effort) == (20.0, 45.0)
    assert knee.control_limited and (knee.lower_control_limit, knee.upper_control_limit) == (-1.0, 1.0)
    assert hip.force_limited and (hip.lower_force_limit, hip.upper_force_limit) == (-30.0, 40.0)


def test_joint_of_the_file_has_its_stiffness_damping_and_armature(gymapi, walker):
    world = World(gymapi, walker(), 1, fix_base_link=True)
    props = world.gym.get_asset_dof_properties(world.asset)
    np.testing.assert_allclose(props["stiffness"], [7.0, 0.0])
    np.testing.assert_allclose(props["damping"], [0.3, 0.3], rtol=1e-6)
    np.testing.assert_allclose(props["armature"], [0.02, 0.02], rtol=1e-6)


def test_effort_of_the_gear_accelerates_the_joint_by_its_inertia(gymapi, walker):
    """Without gravity and at rest, torques and implicit damping are all that accelerates the joints."""
    text = WALKER.replace('range="-120 0"', 'range="-120 10"')
    world = World(gymapi, walker(text), 1, ground=None, fix_base_link=True, disable_gravity=True).prepare()
    mass = world.torch.wrap_tensor(world.gym.acquire_mass_matrix_tensor(world.sim, "robot"))
    world.gym.refresh_mass_matrix_tensors(world.sim)
    torque = torch.tensor([[40.0, -20.0]])
    expected = torch.linalg.solve(mass[0] + 0.005 * 0.3 * torch.eye(2), torque[0]) * 0.005
    world.step(1, torque)
    np.testing.assert_allclose(world.dof[0, :, 1], expected, rtol=0.01)


@pytest.mark.parametrize("mode", [0, 3])
def test_spring_of_the_file_holds_a_joint_without_drive(gymapi, walker, mode):
    """A pendulum with a spring: stiffness times angle equals the torque that is applied."""
    text = WALKER.replace('range="-120 0"', 'range="-0.001 0.001"')
    path = walker(text)
    world = World(gymapi, path, 1, ground=None, fix_base_link=True, disable_gravity=True, default_dof_drive_mode=mode)
    world.prepare().step(1500, torch.tensor([[2.1, 0.0]]))
    assert float(world.dof[0, 0, 0]) == pytest.approx(2.1 / 7.0, rel=0.02)


SERVOS = """
    <position name="knee_servo" joint="knee" kp="20" kv="1.5" forcerange="-8 8"/>
    <velocity name="hip_servo" joint="hip" kv="4"/>"""


def test_servos_of_the_file_are_drives_unless_the_client_chooses_a_mode(gymapi, walker):
    start, end = WALKER.index("<motor"), WALKER.index("</actuator>")
    path = walker((WALKER[:start] + SERVOS + WALKER[end:]).replace('range="-120 0"', 'range="-120 60"'))
    world = World(gymapi, path, 1, ground=None, fix_base_link=True, disable_gravity=True, default_dof_drive_mode=0)
    props = world.gym.get_asset_dof_properties(world.asset)
    assert props["driveMode"].tolist() == [gymapi.DOF_MODE_VEL, gymapi.DOF_MODE_POS]
    np.testing.assert_allclose(props["stiffness"], [7.0, 20.0])
    np.testing.assert_allclose(props["damping"], [4.3, 1.8], rtol=1e-6)
    np.testing.assert_allclose(props["effort"], [0.0, 8.0])
    world.prepare()
    world.gym.set_dof_position_target_tensor(world.sim, world.unwrap(torch.tensor([[0.0, -0.7]])))
    world.step(1500)
    assert float(world.dof[0, 1, 0]) == pytest.approx(-0.7, abs=1e-3)
    chosen = World(gymapi, path, 1, fix_base_link=True, default_dof_drive_mode=int(gymapi.DOF_MODE_EFFORT))
    props = chosen.gym.get_asset_dof_properties(chosen.asset)
    np.testing.assert_allclose(props["stiffness"], [7.0, 0.0])
    assert props["driveMode"].tolist() == [gymapi.DOF_MODE_EFFORT] * 2


FOLDED = """
<mujoco><worldbody><body name="trunk">
  <geom type="sphere" size="0.1" contype="{}" conaffinity="{}"/>
  <body name="thigh"><joint name="hip" axis="0 1 0"/><inertial pos="0 0 0" mass="1" diaginertia="0.01 0.01 0.01"/>
    <body name="shin"><joint name="knee" axis="1 0 0"/>
      <geom type="sphere" size="0.1" pos="0.15 0 0" contype="{}" conaffinity="{}"/>
  </body></body>
</body></worldbody></mujoco>"""


@pytest.mark.parametrize(
    ("rules", "mask", "touch"),
    [((1, 0, 1, 0), -1, False), ((1, 0, 0, 1), -1, True), ((1, 1, 1, 1), -1, True), ((2, 2, 1, 1), -1, False),
     ((1, 0, 1, 0), 0, True), ((1, 1, 1, 1), 1, False)],
)  # fmt: skip
def test_filter_of_minus_one_keeps_the_contypes_of_the_file(gymapi, walker, rules, mask, touch):
    world = World(gymapi, walker(FOLDED.format(*rules)), 0, ground=None)
    env = world.gym.create_env(world.sim, gymapi.Vec3(), gymapi.Vec3(), 1)
    world.gym.create_actor(env, world.asset, gymapi.Transform(), "walker", 0, mask)
    world.num_envs = 1
    world.prepare().step(3)
    assert bool(world.force[0, 0].any()) == touch


def test_position_drive_uses_the_stiffness_of_the_file_once(gymapi, walker):
    def drive(world, env, _):
        props = world.gym.get_actor_dof_properties(env, 0)
        props["driveMode"].fill(gymapi.DOF_MODE_POS)
        world.gym.set_actor_dof_properties(env, 0, props)

    text = WALKER.replace('range="-120 0"', 'range="-0.001 0.001"')
    world = World(
        gymapi, walker(text), 1, ground=None, change=drive, fix_base_link=True, disable_gravity=True
    ).prepare()
    target = torch.tensor([[0.5, 0.0]])
    world.gym.set_dof_position_target_tensor(world.sim, world.unwrap(target))
    world.step(1500, torch.tensor([[1.4, 0.0]]))
    assert float(world.dof[0, 0, 0]) == pytest.approx(0.5 + 1.4 / 7.0, rel=0.02)


def test_unknown_attribute_repeated_name_and_equality_are_left_out_with_a_warning(gymapi, walker):
    text = WALKER.replace('<option timestep="0.01"/>', '<option timestep="0.01" apirate="50"/>')
    text = text.replace('name="knee" axis', 'name="hip" axis').replace('joint="knee"', 'joint="hip"')
    lost = '<equality><joint joint1="hip"/></equality><tendon><spatial name="t"><site site="s"/></spatial></tendon>'
    text = text.replace("</worldbody>", f"</worldbody>{lost}")
    expected = r"walker\.xml.*<equality> is not read.*the spatial tendon 't' is not read"
    with pytest.warns(UserWarning, match=expected + r".*'hip' is called 'hip_2'.*'apirate'"):
        world = World(gymapi, walker(text), 1, fix_base_link=True)
    assert world.gym.get_asset_dof_names(world.asset) == ["hip", "hip_2"]


def test_plain_file_gives_no_warning(gymapi, walker):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        World(gymapi, walker(), 1, fix_base_link=True)


def test_included_file_is_read_from_beside_the_file(gymapi, walker, tmp_path):
    body = WALKER[WALKER.index("<worldbody>") : WALKER.index("</mujoco>")]
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "robot.xml").write_text(f"<mujocoinclude>{body}</mujocoinclude>")
    path = walker(WALKER.replace(body, '<include file="parts/robot.xml"/>'))
    world = World(gymapi, path, 1, fix_base_link=True)
    assert world.gym.get_asset_dof_names(world.asset) == ["hip", "knee"]


def test_file_included_inside_of_the_world_is_read(gymapi, walker, tmp_path):
    bodies = WALKER[WALKER.index("<worldbody>") + len("<worldbody>") : WALKER.index("</worldbody>")]
    (tmp_path / "bodies.xml").write_text(f"<mujoco>{bodies}</mujoco>")
    path = walker(WALKER.replace(bodies, '<include file="bodies.xml"/>'))
    world = World(gymapi, path, 1, fix_base_link=True)
    assert world.gym.get_asset_dof_names(world.asset) == ["hip", "knee"]


def test_joint_with_equal_limits_is_held(gymapi, walker):
    world = World(gymapi, walker(WALKER.replace('range="-120 0"', 'range="0 0"')), 1, fix_base_link=True).prepare()
    world.step(200)
    assert abs(float(world.dof[0, 1, 0])) < 0.01


def test_mesh_that_mujoco_cannot_read_is_left_out_with_a_warning(gymapi, walker):
    text = WALKER.replace("<worldbody>", '<asset><mesh name="hull" file="hull.glb"/></asset><worldbody>', 1)
    text = text.replace(
        '<geom type="sphere" size="0.1"/>', '<geom type="sphere" size="0.1"/><geom type="mesh" mesh="hull"/>'
    )
    with pytest.warns(UserWarning, match=r"hull\.glb is not read"):
        world = World(gymapi, walker(text), 1, fix_base_link=True)
    assert len(world.asset.bodies[0].shapes) == 1


# Calls


def test_pose_of_a_body_and_frame_of_a_dof_follow_the_joints(gymapi, walker):
    world = World(gymapi, walker(), 2, fix_base_link=True)
    gym = world.gym
    before = gym.get_rigid_transform(world.envs[1], 2)
    np.testing.assert_allclose([before.p.x, before.p.y, before.p.z], [0.5, 0.1, 0.7], atol=1e-6)
    world.prepare()
    world.dof[1, 0, 0] = np.pi / 2
    gym.set_dof_state_tensor(world.sim, world.unwrap(world.dof.view(-1, 2)))
    after = gym.get_rigid_transform(world.envs[1], 2)
    np.testing.assert_allclose([after.p.x, after.p.y, after.p.z], [0.2, 0.1, 1.0], atol=1e-5)
    frame = gym.get_dof_frame(world.envs[1], 1)
    np.testing.assert_allclose([frame.origin.x, frame.origin.z], [0.2, 1.0], atol=1e-5)
    np.testing.assert_allclose([frame.axis.x, frame.axis.y, frame.axis.z], [0, 1, 0], atol=1e-5)
    with pytest.raises(IndexError, match="body 7; environment 1 has 3 bodies"):
        gym.get_rigid_transform(world.envs[1], 7)


def test_tensor_acquired_before_prepare_sim_is_the_one_after_it(gymapi, arm):
    world = World(gymapi, arm, 2)
    early = world.torch.wrap_tensor(world.gym.acquire_dof_state_tensor(world.sim))
    world.prepare()
    world.step(3)
    assert early.data_ptr() == world.dof.data_ptr() and early.abs().sum() > 0
    with pytest.raises(RuntimeError, match="prepare_sim was called already"):
        world.gym.prepare_sim(world.sim)


def test_star_import_of_gymtorch_brings_its_functions_alone(gymapi):
    names = {}
    exec("from isaacgym.gymtorch import *", names)
    assert {name for name in names if not name.startswith("__")} == {"wrap_tensor", "unwrap_tensor"}


# Input that makes no sense


@pytest.mark.parametrize(("change", "words"), [
    (lambda text: text.replace('<mass value="0.7"/>', '<mass value="-0.7"/>'), "link 'upper' has a mass of -0.7 kg"),
    (lambda text: text.replace('<mass value="0.7"/>', '<mass value="nan"/>'), "link 'upper' has a mass of nan kg"),
    (lambda text: text.replace('velocity="5"', 'velocity="-5"'), "joint 'a_hinge' has velocity=-5"),
    (lambda text: text.replace('effort="10"', 'effort="nan"'), "joint 'a_hinge' has effort=nan"),
])  # fmt: skip
def test_robot_file_that_makes_no_sense_is_one_error(gymapi, tmp_path, change, words):
    path = tmp_path / "arm.urdf"
    path.write_text(change(ARM))
    with pytest.raises(ValueError, match=words):
        World(gymapi, path, 1)


def test_links_that_form_a_loop_are_refused(gymapi, tmp_path):
    path = tmp_path / "loop.urdf"
    joints = "".join(
        f'<joint name="{a}{b}" type="fixed"><parent link="{a}"/><child link="{b}"/></joint>' for a, b in ("ab", "ba")
    )
    path.write_text(box_urdf().replace("</robot>", f'<link name="a"/><link name="b"/>{joints}</robot>'))
    with pytest.raises(ValueError, match="no joint leads from the root 'box' to a, b"):
        World(gymapi, path, 1)


@pytest.mark.parametrize(("name", "value"), [
    ("driveMode", 77), ("stiffness", -1.0), ("stiffness", np.nan), ("effort", np.nan), ("velocity", -2.0),
    ("lower", np.nan),
])  # fmt: skip
def test_dof_property_that_makes_no_sense_is_one_error(gymapi, arm, name, value):
    world = World(gymapi, arm, 1)
    props = world.gym.get_actor_dof_properties(world.envs[0], 0)
    props[name][1] = value
    with pytest.raises(ValueError, match=f"'{name}' of DoF 'Z_spin' is"):
        world.gym.set_actor_dof_properties(world.envs[0], 0, props)


def test_mass_that_is_no_number_is_one_error(gymapi, arm):
    world = World(gymapi, arm, 1)
    props = world.gym.get_actor_rigid_body_properties(world.envs[0], 0)
    props[1].mass = float("nan")
    with pytest.raises(ValueError, match="body 'upper' has a mass of nan kg"):
        world.gym.set_actor_rigid_body_properties(world.envs[0], 0, props)


@pytest.mark.parametrize("index", [-1, 2])
def test_environment_that_is_not_there_is_one_error(gymapi, arm, index):
    world = World(gymapi, arm, 2)
    with pytest.raises(IndexError, match=f"environment {index}; the simulation has 2"):
        world.gym.get_env(world.sim, index)


@pytest.mark.parametrize("dt", [0.0, -1.0, float("nan"), float("inf")])
def test_time_step_that_makes_no_sense_is_one_error(gymapi, arm, dt):
    with pytest.raises(ValueError, match="both must be positive"):
        World(gymapi, arm, 1, setup=lambda params: setattr(params, "dt", dt))


def test_unknown_setting_of_divergence_is_one_error(gymapi, arm, monkeypatch):
    monkeypatch.setenv("GYMAPI_MUJOCO_DIVERGED", "foo")
    with pytest.raises(ValueError, match="GYMAPI_MUJOCO_DIVERGED=foo; give start or nan"):
        World(gymapi, arm, 1).prepare()


def test_height_field_without_scale_is_one_error(gymapi):
    from isaacgym import terrain_utils

    with pytest.raises(ValueError, match="both must be above zero"):
        terrain_utils.convert_heightfield_to_trimesh(np.zeros((4, 4)), 0, 0, 0)


def test_stiff_drive_of_a_light_joint_is_stable_and_reaches_its_target(gymapi, walker):
    """k dt^2 / I is some thousands, as at the rotors of a drone: a drive that is explicit in the position diverges."""

    def drive(world, env, _):
        props = world.gym.get_actor_dof_properties(env, 0)
        props["driveMode"].fill(gymapi.DOF_MODE_POS)
        props["stiffness"], props["damping"], props["armature"] = 1000.0, 0.0, 1e-6
        world.gym.set_actor_dof_properties(env, 0, props)

    text = WALKER.replace('density="400"', 'density="20"').replace('range="-120 0"', 'range="-120 90"')
    world = World(gymapi, walker(text), 1, ground=None, change=drive, fix_base_link=True, disable_gravity=True)
    world.prepare()
    target = torch.tensor([[0.4, -0.3]])
    world.gym.set_dof_position_target_tensor(world.sim, world.unwrap(target))
    world.step(300)
    np.testing.assert_allclose(world.dof[0, :, 0], target[0], atol=0.01)
    assert world.gym.diverged_count(world.sim) == 0


def test_held_joint_of_a_root_leaves_it_free(gymapi, walker):
    held = '<geom type="sphere" size="0.1"/><joint name="root" type="hinge" limited="true" range="0 0"/>'
    path = walker(WALKER.replace('<geom type="sphere" size="0.1"/>', held))
    world = World(gymapi, path, 1, ground=None).prepare()
    assert world.gym.get_asset_dof_names(world.asset) == ["hip", "knee"]
    world.step(100)
    fallen = 9.81 * 0.5**2 / 2
    assert float(world.root[0, 2]) == pytest.approx(1.0 - fallen, rel=0.02, abs=0.1)


TENDON = """<tendon><fixed name="pull" limited="true" range="-0.001 0.01">
  <joint joint="hip" coef="0.1"/><joint joint="knee" coef="-0.1"/></fixed></tendon>"""
FREE = WALKER.replace("</worldbody>", f"</worldbody>{TENDON}").replace('"-120 0"', '"-120 120"')


def test_tendon_of_the_file_answers_the_calls(gymapi, walker):
    world = World(gymapi, walker(FREE), 1, fix_base_link=True)
    gym, asset, env = world.gym, world.asset, world.envs[0]
    assert gym.get_asset_tendon_count(asset) == gym.get_actor_tendon_count(env, 0) == 1
    assert gym.get_asset_tendon_name(asset, 0) == gym.get_actor_tendon_name(env, 0, 0) == "pull"
    assert gym.find_asset_tendon_index(asset, "pull") == 0 and gym.find_actor_tendon_index(env, 0, "push") == -1
    assert gym.get_asset_fixed_tendon_joint_coefficients(asset, 0) == pytest.approx([0.1, -0.1])
    assert gym.get_actor_fixed_tendon_joint_name(env, 0, 0, 1) == "knee"
    assert gym.find_actor_fixed_tendon_joint_index(env, 0, 0, "knee") == 1
    (props,) = gym.get_asset_tendon_properties(asset)
    assert props.is_fixed_limited and props.limit_stiffness == 1.0
    assert (props.fixed_lower_limit, props.fixed_upper_limit) == pytest.approx((-0.001, 0.01))
    with pytest.raises(IndexError, match="get_asset_tendon_name: tendon 1"):
        gym.get_asset_tendon_name(asset, 1)
    props.stiffness = -1.0
    with pytest.raises(ValueError, match="tendon 'pull' has stiffness -1"):
        gym.set_asset_tendon_properties(asset, [props])


def turned(gymapi, path, torque, **values):
    """Return the angles of hip and knee [2, 2] at rest under a torque of the hip, in two environments; the second one
    got the tendon's properties after prepare_sim."""
    world = World(gymapi, path, 2, ground=None, fix_base_link=True, disable_gravity=True)

    def give(env):
        (props,) = world.gym.get_actor_tendon_properties(env, 0)
        for name, value in values.items():
            setattr(props, name, value)
        world.gym.set_actor_tendon_properties(env, 0, [props])

    give(world.envs[0])
    world.prepare()
    give(world.envs[1])
    world.step(2000, torch.tensor([[torque, 0.0]] * 2))
    return world.dof[..., 0]


def test_tendon_with_a_spring_turns_the_joints_by_its_torques(gymapi, walker):
    angles = turned(gymapi, walker(FREE), 2.1, stiffness=5.0, is_fixed_limited=False)
    hip = 2.1 / 7.0  # the knee is free, so the tendon has its rest length: the hip's own spring carries the torque
    torch.testing.assert_close(angles, torch.tensor([[hip, hip]] * 2), atol=1e-3, rtol=0)


def test_tendon_with_limits_keeps_the_joints_within_their_distance(gymapi, walker):
    for stiffness in (3.0, 3000.0):  # a spring, and one that is harder than the time step resolves
        angles = turned(gymapi, walker(FREE), 2.1, limit_stiffness=stiffness)
        torch.testing.assert_close(angles[:, 0], torch.full((2,), 0.3), atol=2e-3, rtol=0)
        assert (angles[:, 1] > 0.2 - 2e-3).all() and (angles[:, 1] < 0.31 + 2e-3).all()
    angles = turned(gymapi, walker(FREE), 2.1, limit_stiffness=0.0)
    assert (angles[:, 1] < 0.15).all()


def test_tendon_with_a_spring_of_one_joint_has_the_stiffness_of_its_torque(gymapi, walker):
    text = FREE.replace('<joint joint="knee" coef="-0.1"/>', "")
    angles = turned(gymapi, walker(text), 2.1, stiffness=7.0, is_fixed_limited=False)
    torch.testing.assert_close(angles[:, 0], torch.full((2,), 2.1 / 14.0), atol=1e-3, rtol=0)
