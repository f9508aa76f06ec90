"""States, forces and parameters of a running simulation, against closed forms and differences of positions."""

import numpy as np
import pytest
import torch
from gymapi_mujoco.structs import to_wxyz
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from robots import ARM, GO2, World

pytestmark = pytest.mark.usefixtures("engine")


def rotate(quat, vector):
    """Turn vectors by quaternions x y z w."""
    axis, w = quat[..., :3], quat[..., 3:]
    twice = 2 * torch.linalg.cross(axis, vector.expand(axis.shape))
    return vector + w * twice + torch.linalg.cross(axis, twice)


def test_states_before_the_first_step_are_those_of_create_actor(gymapi, arm):
    world = World(gymapi, arm, 3).prepare()
    world.refresh()
    assert world.root[:, :3].tolist() == [[0, 0, 1], [0.5, 0, 1], [1, 0, 1]]
    assert (world.root[:, 3:] == torch.tensor([0, 0, 0, 1.0, *[0] * 6])).all()
    assert not world.dof.any() and torch.equal(world.body[:, 0], world.root)


def test_body_states_can_be_read_before_prepare_sim(gymapi, arm):
    shifted = arm.read_text().replace('lower="-0.1"', 'lower="0.05"').replace('lower="-0.5"', 'lower="0.3"')
    arm.write_text(shifted)  # the DoFs start at their lower limits
    turned = gymapi.Quat.from_euler_zyx(0.3, -0.4, 0.5)
    world = World(gymapi, arm, 2, change=lambda world, env, i: setattr(env.actors[0], "quat", to_wxyz(turned)))
    early = [world.gym.get_actor_rigid_body_states(env, 0, gymapi.STATE_ALL) for env in world.envs]
    world.prepare()
    world.refresh()
    kept = world.body.clone()
    for i, env in enumerate(world.envs):
        late = world.gym.get_actor_rigid_body_states(env, 0, gymapi.STATE_ALL)
        for field in ("p", "r"):
            for axis in early[i]["pose"][field].dtype.names:
                np.testing.assert_allclose(early[i]["pose"][field][axis], late["pose"][field][axis], atol=1e-6)
        world.gym.get_actor_rigid_body_states(env, 0, gymapi.STATE_POS)
    assert torch.equal(kept, world.body)  # asking for a part leaves the tensor as it is


def test_velocities_are_differences_of_positions(gymapi, arm):
    """Linear velocities belong to the centre of mass, in world axes; the arm tumbles with its joints moving."""
    world = World(gymapi, arm, 2, height=5.0, setup=lambda params: setattr(params, "dt", 1e-4)).prepare()
    torch.manual_seed(2)
    root = world.root.clone()
    root[:, 3:7] = torch.nn.functional.normalize(torch.randn(2, 4), dim=1)
    root[:, 7:] = torch.randn(2, 6)
    world.dof[..., 0], world.dof[..., 1] = 0.1, torch.randn(2, 3)
    world.gym.set_actor_root_state_tensor(world.sim, world.unwrap(root))
    world.gym.set_dof_state_tensor(world.sim, world.unwrap(world.dof.view(-1, 2)))
    world.refresh()
    torch.testing.assert_close(world.root, root, atol=1e-6, rtol=1e-5)
    coms = torch.tensor(world.asset.coms).float()
    before, place = world.body.clone(), world.body[..., :3] + rotate(world.body[..., 3:7], coms)
    dofs = world.dof.clone()
    world.step(20)
    after = world.body[..., :3] + rotate(world.body[..., 3:7], coms)
    mean = (before[..., 7:] + world.body[..., 7:]) / 2
    torch.testing.assert_close((after - place) / 2e-3, mean[..., :3], atol=5e-3, rtol=0)
    torch.testing.assert_close(
        (world.dof[..., 0] - dofs[..., 0]) / 2e-3, (world.dof[..., 1] + dofs[..., 1]) / 2, atol=5e-3, rtol=0
    )
    product = torch.stack([_relative(before[0, i, 3:7], world.body[0, i, 3:7]) for i in range(5)])
    torch.testing.assert_close(product / 2e-3, mean[0, :, 3:], atol=5e-3, rtol=0)
    torch.testing.assert_close(world.body[:, 0], world.root, atol=1e-5, rtol=1e-5)


def _relative(old, new):
    """Return the rotation vector, in world axes, from one quaternion x y z w to another that is close."""
    x, w = new[:3] * old[3] - old[:3] * new[3] - torch.linalg.cross(new[:3], old[:3]), new @ old
    return 2 * x * torch.sign(w)


def test_falling_box_follows_gravity_and_its_contact_force_is_its_weight(gymapi, box):
    world = World(gymapi, box, 1, height=2.0).prepare()
    world.step(40)
    time = 40 * 0.005
    torch.testing.assert_close(world.root[0, 9], torch.tensor(-9.81 * time), atol=1e-4, rtol=1e-4)
    assert abs(float(world.root[0, 2]) - (2 - 9.81 * time * (time + 0.005) / 2)) < 1e-4  # semi-implicit Euler
    assert not world.force.any()
    world.step(400)
    torch.testing.assert_close(world.force[0, 0], torch.tensor([0.0, 0.0, 2 * 9.81]), atol=0.05, rtol=0)
    assert abs(float(world.root[0, 2]) - 0.1) < 2e-3


@pytest.mark.parametrize(("friction", "slides"), [(0.1, True), (0.6, False)])
def test_box_on_a_slope_slides_if_the_mean_friction_is_below_the_slope(gymapi, box, friction, slides):
    """Ground 1.0; gravity is tilted by atan(0.7) in place of the ground."""

    def tilt(params):
        angle = np.arctan(0.7)
        params.gravity = gymapi.Vec3(9.81 * np.sin(angle), 0, -9.81 * np.cos(angle))

    def change(world, env, i):
        shapes = world.gym.get_actor_rigid_shape_properties(env, 0)
        shapes[0].friction = friction
        world.gym.set_actor_rigid_shape_properties(env, 0, shapes)

    world = World(gymapi, box, 1, height=0.1, setup=tilt, change=change).prepare()
    world.step(200)
    mean = (friction + 1) / 2
    expected = 9.81 * max(0.0, np.sin(np.arctan(0.7)) - mean * np.cos(np.arctan(0.7)))  # [m/s^2]
    assert (expected > 0) == slides
    assert abs(float(world.root[0, 7]) - expected) < 0.15  # the box tilts while it slides


def test_box_that_is_pulled_below_its_friction_stays(gymapi, box, engine):
    """Contacts of MuJoCo slide a little under a constant load; here less than 0.1 mm in a second at 70 % of it."""
    world = World(gymapi, box, 1, height=0.1).prepare()
    world.step(100)
    start, force = world.root[0, :3].clone(), torch.zeros(1, 1, 3)
    force[0, 0] = torch.tensor([0.7 * 2 * 9.81, 0.0, 0.0])
    for _ in range(200):
        world.gym.apply_rigid_body_force_tensors(world.sim, world.unwrap(force), None, gymapi.ENV_SPACE)
        world.step()
    assert (world.root[0, :2] - start[:2]).norm() < 1e-4


def test_pushed_box_moves_by_force_over_mass_for_one_step(gymapi, box):
    world = World(gymapi, box, 2, height=3.0, setup=lambda params: setattr(params, "gravity", gymapi.Vec3())).prepare()
    force = torch.zeros(2, 1, 3)
    force[1, 0] = torch.tensor([4.0, 0, 0])
    torque = torch.tensor([[[0, 0, 0.0]], [[0, 0, 0.1]]])
    world.gym.apply_rigid_body_force_tensors(world.sim, world.unwrap(force), world.unwrap(torque), gymapi.ENV_SPACE)
    world.step()
    assert not world.force.any()
    torch.testing.assert_close(world.root[1, 7], torch.tensor(4.0 / 2 * 0.005))
    torch.testing.assert_close(world.root[1, 12], torch.tensor(0.1 / (2 * 0.2**2 / 6) * 0.005))
    assert not world.root[0, 7:].any()
    world.step()
    torch.testing.assert_close(world.root[1, 7], torch.tensor(4.0 / 2 * 0.005))  # no force any more
    at = world.body[..., :3] + torch.tensor([0.0, 0.1, 0.0])
    world.gym.apply_rigid_body_force_at_pos_tensors(
        world.sim, world.unwrap(force), world.unwrap(at), gymapi.GLOBAL_SPACE
    )
    spin = float(world.root[1, 12])
    world.step()
    assert abs(float(world.root[1, 12]) - spin + 4 * 0.1 / (2 * 0.2**2 / 6) * 0.005) < 2e-3


def test_standing_go2_rests_on_its_feet_with_its_weight(gymapi):
    world = World(gymapi, GO2, 2, height=0.4, replace_cylinder_with_capsule=True).prepare()
    world.stand()
    weight = 15.017 * 9.81
    torch.testing.assert_close(world.force.sum(1)[:, 2], torch.full((2,), weight), rtol=0.02, atol=0)
    feet = [i for i, name in enumerate(world.asset.body_names) if name.endswith("_foot")]
    assert (world.force[:, feet, 2] > 10).all()
    assert (world.force[:, feet, 2].sum(1) / weight > 0.99).all()
    assert (world.body[:, feet, 2] - 0.022).abs().max() < 1.5e-3  # a foot is a sphere with a radius of 22 mm
    assert ((world.root[:, 2] > 0.26) & (world.root[:, 2] < 0.34)).all()


def test_contact_force_does_not_contain_the_applied_force(gymapi, box):
    world = World(gymapi, box, 1, height=0.1).prepare()
    world.step(200)
    up = torch.tensor([[[0.0, 0.0, 10.0]]])
    for _ in range(100):
        world.gym.apply_rigid_body_force_tensors(world.sim, world.unwrap(up), None, gymapi.ENV_SPACE)
        world.step()
    torch.testing.assert_close(world.force[0, 0, 2], torch.tensor(2 * 9.81 - 10), atol=0.1, rtol=0)


def test_joint_reaches_its_limits_and_no_further(gymapi, arm):
    world = World(gymapi, arm, 2, height=3.0, fix_base_link=True, setup=_no_gravity(gymapi)).prepare()
    effort = torch.tensor([[1.0, 0.0, 5.0], [-1.0, 0.0, -5.0]])
    world.step(600, effort)
    torch.testing.assert_close(world.dof[:, 0, 0], torch.tensor([1.0, -0.5]), atol=0.02, rtol=0)
    torch.testing.assert_close(world.dof[:, 2, 0], torch.tensor([0.2, -0.1]), atol=0.02, rtol=0)
    assert torch.equal(world.root[:, :3], torch.tensor([[0, 0, 3.0], [0.5, 0, 3.0]]))


def _no_gravity(gymapi):
    return lambda params: setattr(params, "gravity", gymapi.Vec3(0, 0, 0))


def test_effort_is_limited_where_the_urdf_has_a_limit_and_lasts_one_step(gymapi, arm):
    world = World(gymapi, arm, 1, height=3.0, fix_base_link=True, setup=_no_gravity(gymapi)).prepare()
    twin = World(gymapi, arm, 1, height=3.0, fix_base_link=True, setup=_no_gravity(gymapi)).prepare()
    world.step(1, torch.tensor([[0.0, 0.0, 1000.0]]))
    twin.step(1, torch.tensor([[0.0, 0.0, 50.0]]))
    assert torch.equal(world.dof, twin.dof)
    torch.testing.assert_close(world.dof[0, 2, 1], torch.tensor(50 / 0.5 * 0.005), rtol=1e-4, atol=0)
    speed = world.dof[0, 2, 1].clone()
    world.step(1)
    torch.testing.assert_close(world.dof[0, 2, 1], speed)


def test_velocity_of_a_dof_is_limited_where_the_urdf_has_a_limit(gymapi, arm):
    world = World(gymapi, arm, 2, height=3.0, fix_base_link=True, setup=_no_gravity(gymapi)).prepare()
    props = world.gym.get_actor_dof_properties(world.envs[1], 0)
    props["velocity"] = [1.0, 6.0, 0.5]  # also after prepare_sim
    world.gym.set_actor_dof_properties(world.envs[1], 0, props)
    efforts = torch.tensor([[10.0, 0.1, -50.0]]).repeat(2, 1)
    world.step(1, efforts)
    assert world.dof[0, 0, 1] < 5.0 and world.dof[0, 2, 1] > -2.0, "the limits must not be reached in one step"
    world.step(9, efforts)
    torch.testing.assert_close(world.dof[0, [0, 2], 1], torch.tensor([5.0, -2.0]))
    torch.testing.assert_close(world.dof[1, :, 1], torch.tensor([1.0, 6.0, -0.5]))
    assert world.dof[0, 1, 1] > 6.0  # its limit is zero: none


def test_limit_of_a_velocity_leaves_the_momentum_of_a_free_robot_as_it_is(gymapi, arm):
    world = World(gymapi, arm, 1, height=3.0, setup=_no_gravity(gymapi)).prepare()
    masses = torch.tensor([body.mass for body in world.gym.get_actor_rigid_body_properties(world.envs[0], 0)])
    world.step(10, torch.tensor([[10.0, 0.0, -50.0]]))
    speeds = world.dof[0, [0, 2], 1].abs()
    torch.testing.assert_close(speeds, torch.tensor([5.0, 2.0]))  # both at their limits
    momentum = masses[:, None] * world.body[0, :, 7:10]
    assert momentum.norm(dim=1).max() > 0.5
    # The time steps change it by 0.025, without limits by 0.2; cutting the velocities off would make it 6.2 kg m/s.
    torch.testing.assert_close(momentum.sum(dim=0), torch.zeros(3), atol=0.05, rtol=0)


def test_velocity_limits_without_selected_worlds_give_the_same_states(gymapi, arm):
    efforts = torch.tensor([[10.0, 0.0, -50.0], [0.0, 0.0, 50.0], [0.1, 0.0, 0.1]])
    states = []
    for skip_others in (True, False):  # False on a GPU
        world = World(gymapi, arm, 3, height=3.0).prepare()
        world.sim.engine.velocity_limits.skip_others = skip_others
        world.step(10, efforts)
        states.append(torch.cat((world.dof.flatten(1), world.root), dim=1))
    assert states[0][0, 1] > 4.9 and states[0][2, 1] < 4.9  # some are at their limits
    torch.testing.assert_close(*states, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("mode", ["DOF_MODE_POS", "DOF_MODE_VEL"])
def test_drive_follows_its_target(gymapi, arm, mode):
    def change(world, env, i):
        props = world.gym.get_actor_dof_properties(env, 0)
        props["driveMode"] = int(getattr(gymapi, mode))
        props["stiffness"], props["damping"] = 100.0 if mode == "DOF_MODE_POS" else 0.0, 20.0
        world.gym.set_actor_dof_properties(env, 0, props)

    world = World(gymapi, arm, 1, height=3.0, fix_base_link=True, change=change, setup=_no_gravity(gymapi)).prepare()
    if mode == "DOF_MODE_POS":
        target = torch.tensor([0.4, 0.3, 0.1])
        world.gym.set_dof_position_target_tensor(world.sim, world.unwrap(target))
        world.step(600)
        torch.testing.assert_close(world.dof[0, :, 0], target, atol=2e-3, rtol=0)
    else:
        world.gym.set_dof_velocity_target_tensor(world.sim, world.unwrap(torch.tensor([0.3, 2.0, 0.1])))
        world.step(200)
        torch.testing.assert_close(world.dof[0, :, 1], torch.tensor([0.3, 2.0, 0.1]), atol=2e-2, rtol=0)


def test_mass_centre_and_damping_of_each_actor_are_used(gymapi, arm):
    def change(world, env, i):
        bodies = world.gym.get_actor_rigid_body_properties(env, 0)
        bodies[4].mass += 0.5 * i
        bodies[0].com = bodies[0].com + gymapi.Vec3(0.01 * i, 0, 0)
        world.gym.set_actor_rigid_body_properties(env, 0, bodies, recomputeInertia=True)
        props = world.gym.get_actor_dof_properties(env, 0)
        props["damping"][2] = 4.0 * i
        world.gym.set_actor_dof_properties(env, 0, props)

    world = World(gymapi, arm, 2, height=3.0, fix_base_link=True, change=change, setup=_no_gravity(gymapi)).prepare()
    world.step(1, torch.tensor([[0.0, 0.0, 10.0]]).repeat(2, 1))
    expected = [10 * 0.005 / 0.5, 10 * 0.005 / (1.0 + 4.0 * 0.005)]  # damping is implicit
    torch.testing.assert_close(world.dof[:, 2, 1], torch.tensor(expected), rtol=1e-4, atol=0)
    bodies = world.gym.get_actor_rigid_body_properties(world.envs[1], 0)
    bodies[4].mass = 2.0  # also after prepare_sim
    world.gym.set_actor_rigid_body_properties(world.envs[1], 0, bodies, recomputeInertia=True)
    before = world.dof[1, 2, 1].clone()
    world.step(1, torch.tensor([[0.0, 0.0, 10.0]]).repeat(2, 1))
    torch.testing.assert_close(world.dof[1, 2, 1], (2.0 * before + 10 * 0.005) / (2.0 + 4.0 * 0.005), rtol=1e-4, atol=0)


def test_gravity_can_change_and_can_be_disabled(gymapi, box):
    world = World(gymapi, box, 1, height=3.0).prepare()
    params = world.gym.get_sim_params(world.sim)
    params.gravity = gymapi.Vec3(0, 0, -1.0)
    world.gym.set_sim_params(world.sim, params)
    world.step(10)
    torch.testing.assert_close(world.root[0, 9], torch.tensor(-0.05), rtol=1e-5, atol=0)
    floating = World(gymapi, box, 1, height=3.0, disable_gravity=True).prepare()
    floating.step(10)
    assert float(floating.root[0, 9].abs()) < 1e-9


def test_self_collision_follows_the_filter(gymapi, tmp_path):
    """Two boxes on sliders that overlap at zero are pushed apart with the filter 0, and not with 1."""
    text = ARM[: ARM.index('<joint name="a_hinge"')] + "</robot>"
    collision = '<collision><origin xyz="{} 0 0"/><geometry><sphere radius="0.1"/></geometry></collision></link>'
    second = '<joint name="c" type="prismatic"><parent link="base"/><child link="other"/><axis xyz="1 0 0"/>'
    second += '<origin xyz="0.2 0 0"/><limit lower="-1" upper="1" effort="9" velocity="9"/></joint>'
    inertial = (
        '<inertial><mass value="0.5"/><inertia ixx="0.001" iyy="0.001" izz="0.001" ixy="0" ixz="0" iyz="0"/></inertial>'
    )
    start = text.rindex("</link>")
    text = text[:start] + collision.format(0.0) + second
    text += f'<link name="other">{inertial}{collision.format(0.05)}</robot>'
    (tmp_path / "two.urdf").write_text(text)
    moved = []
    for mask in (0, 1):

        def change(world, env, i, mask=mask):
            shapes = world.gym.get_actor_rigid_shape_properties(env, 0)
            for shape in shapes:
                shape.filter = mask
            world.gym.set_actor_rigid_shape_properties(env, 0, shapes)

        world = World(gymapi, tmp_path / "two.urdf", 1, height=3.0, fix_base_link=True, change=change, ground=None)
        world.prepare().step(20)
        moved.append(float(world.dof[0, :, 0].abs().max()))
    assert moved[0] > 0.01 and moved[1] < 1e-6


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6), rows=st.sets(st.integers(0, 3), min_size=1))
def test_indexed_states_are_read_back_and_other_rows_stay(shared_arm, seed, rows):
    world, ids = shared_arm, torch.tensor(sorted(rows), dtype=torch.int32)
    torch.manual_seed(seed)
    world.step(2)
    root, dof = world.root.clone(), world.dof.clone()
    new_root = torch.randn(4, 13)
    new_root[:, 3:7] = torch.nn.functional.normalize(torch.randn(4, 4), dim=1)
    new_dof = torch.rand(4, 3, 2) * 0.2 - 0.05
    world.gym.set_actor_root_state_tensor_indexed(world.sim, world.unwrap(new_root), world.unwrap(ids), len(ids))
    world.gym.set_dof_state_tensor_indexed(world.sim, world.unwrap(new_dof.view(-1, 2)), world.unwrap(ids), len(ids))
    world.refresh()
    for env in range(4):
        want_root, want_dof = (new_root, new_dof) if env in rows else (root, dof)
        torch.testing.assert_close(world.root[env], want_root[env], atol=2e-6, rtol=1e-5)
        torch.testing.assert_close(world.dof[env], want_dof[env])
        torch.testing.assert_close(world.body[env, 0], want_root[env], atol=1e-5, rtol=1e-5)


@pytest.fixture
def shared_arm(gymapi, arm):
    return World(gymapi, arm, 4, height=30.0).prepare()


def test_equal_runs_have_equal_bits(gymapi):
    ends = []
    for _ in range(2):
        world = World(gymapi, GO2, 3, height=0.3, replace_cylinder_with_capsule=True).prepare()
        torch.manual_seed(0)
        world.step(60, lambda world=world: 5 * torch.randn(3, 12))
        ends.append(torch.cat((world.root.flatten(), world.dof.flatten(), world.force.flatten())))
    assert torch.equal(*ends)


def test_diverged_environment_starts_again_and_others_go_on(gymapi, arm, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    world, alone = World(gymapi, arm, 2, height=3.0).prepare(), World(gymapi, arm, 2, height=3.0).prepare()
    broken = world.dof.clone()
    broken[1, :, 1] = 1e30
    world.gym.set_dof_state_tensor(world.sim, world.unwrap(broken.view(-1, 2)))
    with pytest.warns(UserWarning, match="environment 1 diverged"):
        world.step(1)
    alone.step(1)
    assert torch.isfinite(world.root).all() and torch.equal(world.dof[0], alone.dof[0])
    torch.testing.assert_close(world.root[1, :3], torch.tensor([0.5, 0.0, 3.0]))
    assert world.gym.diverged_count(world.sim) == 1 and not list(tmp_path.glob("MUJOCO_LOG*"))
    world.step(5)
    assert torch.isfinite(world.dof).all()
