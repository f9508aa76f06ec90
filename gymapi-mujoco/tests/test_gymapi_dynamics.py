"""Jacobians, mass matrices, force sensors, DoF forces, several actors, cameras."""

import mujoco
import numpy as np
import pytest
import torch
from gymapi_mujoco.viewer import add_others
from robots import World

pytestmark = pytest.mark.usefixtures("engine")


def moving(gymapi, arm, fixed):
    world = World(gymapi, arm, 2, height=3.0, fix_base_link=fixed).prepare()
    torch.manual_seed(1)
    root = world.root.clone()
    root[:, 3:7] = torch.nn.functional.normalize(torch.randn(2, 4), dim=1)
    root[:, 7:] = torch.randn(2, 6)
    world.dof[..., 0], world.dof[..., 1] = 0.1 * torch.rand(2, 3), torch.randn(2, 3)
    if not fixed:
        world.gym.set_actor_root_state_tensor(world.sim, world.unwrap(root))
    world.gym.set_dof_state_tensor(world.sim, world.unwrap(world.dof.view(-1, 2)))
    world.refresh()
    return world


@pytest.mark.parametrize("fixed", [False, True])
def test_jacobian_times_velocities_is_the_velocity_of_the_bodies(gymapi, arm, fixed):
    world = moving(gymapi, arm, fixed)
    jacobian = world.torch.wrap_tensor(world.gym.acquire_jacobian_tensor(world.sim, "robot"))
    world.gym.refresh_jacobian_tensors(world.sim)
    assert jacobian.shape == ((2, 4, 6, 3) if fixed else (2, 5, 6, 9))
    speeds = world.dof[..., 1] if fixed else torch.cat((world.root[:, 7:], world.dof[..., 1]), dim=1)
    velocity = (jacobian @ speeds[:, None, :, None]).squeeze(-1)
    torch.testing.assert_close(velocity, world.body[:, int(fixed) :, 7:], atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("fixed", [False, True])
def test_mass_matrix_gives_the_kinetic_energy(gymapi, arm, fixed):
    world = moving(gymapi, arm, fixed)
    matrix = world.torch.wrap_tensor(world.gym.acquire_mass_matrix_tensor(world.sim, "robot"))
    world.gym.refresh_mass_matrix_tensors(world.sim)
    speeds = world.dof[..., 1] if fixed else torch.cat((world.root[:, 7:], world.dof[..., 1]), dim=1)
    energy = 0.5 * torch.einsum("ni,nij,nj->n", speeds, matrix, speeds)
    expected = torch.zeros(2)
    for i, (mass, inertia) in enumerate(zip(world.asset.masses, world.asset.inertias)):
        x, y, z, w = world.body[:, i, 3:7].unbind(1)
        turn = torch.stack(
            [
                torch.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)], -1),
                torch.stack([2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)], -1),
                torch.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], -1),
            ],
            1,
        )
        spin = (turn.transpose(1, 2) @ world.body[:, i, 10:, None]).squeeze(-1)
        expected += 0.5 * mass * world.body[:, i, 7:10].square().sum(1)
        expected += 0.5 * torch.einsum("ni,ij,nj->n", spin, torch.tensor(inertia).float(), spin)
    torch.testing.assert_close(energy, expected, rtol=1e-3, atol=1e-5)  # MuJoCo balances the tool's inertia


def test_force_sensor_gives_the_contact_force_at_its_place(gymapi, box):
    """A box of 2 kg rests; the sensor is at its side, with its axes turned by 90 degrees about z."""

    def change(world, env, i):
        pass

    world = World(gymapi, box, 1, height=0.1, change=change)
    props = gymapi.ForceSensorProperties()
    props.enable_forward_dynamics_forces = False
    pose = gymapi.Transform(gymapi.Vec3(0.1, 0, 0), gymapi.Quat(0, 0, np.sqrt(0.5), np.sqrt(0.5)))
    assert world.gym.create_asset_force_sensor(world.asset, 0, pose, props) == 0
    assert world.gym.create_asset_force_sensor(world.asset, 7, pose, props) == -1
    both = gymapi.ForceSensorProperties()
    world.gym.create_asset_force_sensor(world.asset, 0, gymapi.Transform(), both)
    world.prepare()
    sensor = world.torch.wrap_tensor(world.gym.acquire_force_sensor_tensor(world.sim))
    world.step(300)
    world.gym.refresh_force_sensor_tensor(world.sim)
    weight = 2 * 9.81
    assert sensor.shape == (2, 6)
    # The force acts below the centre: torque (-0.1, 0, 0) x (0, 0, F) = (0, 0.1 F, 0), which is x of the sensor.
    torch.testing.assert_close(sensor[0], torch.tensor([0, 0, weight, 0.1 * weight, 0, 0]), atol=0.05, rtol=0)
    assert sensor[1].abs().max() < 0.05  # contact and weight cancel


def test_dof_force_is_the_effort_of_the_last_step(gymapi, arm):
    world = World(gymapi, arm, 2, height=3.0).prepare()
    force = world.torch.wrap_tensor(world.gym.acquire_dof_force_tensor(world.sim))
    effort = torch.tensor([[1.0, 0.5, 100.0], [0.0, 0.0, -3.0]])
    world.step(1, effort)
    world.gym.refresh_dof_force_tensor(world.sim)
    assert force.tolist() == [1.0, 0.5, 50.0, 0.0, 0.0, -3.0]


def two_actors(gymapi, arm, group=0):
    """An arm with a fixed base and a box, two environments of 4 m."""
    world = World(gymapi, arm, 0, fix_base_link=True)
    side = gymapi.AssetOptions()
    side.density, side.angular_damping = 500.0, 0.0
    box = world.gym.create_box(world.sim, 0.2, 0.2, 0.2, side)
    for i in range(2):
        env = world.gym.create_env(world.sim, gymapi.Vec3(-2, -2, 0), gymapi.Vec3(2, 2, 2), 2)
        world.gym.create_actor(env, world.asset, gymapi.Transform(gymapi.Vec3(0, 0, 1)), "arm", i, 0)
        world.gym.create_actor(env, box, gymapi.Transform(gymapi.Vec3(0, 0, 1.2)), "box", i + group, 0)
        world.envs.append(env)
    world.num_envs = 2
    return world.prepare()


def test_several_actors_have_rows_of_their_own_and_touch(gymapi, arm):
    world = two_actors(gymapi, arm)
    gym, env = world.gym, world.envs[1]
    assert gym.get_sim_actor_count(world.sim) == 4 and gym.find_actor_handle(env, "box") == 1
    assert gym.find_actor_index(env, "box", gymapi.DOMAIN_SIM) == 3
    assert gym.find_actor_rigid_body_index(env, 1, "box", gymapi.DOMAIN_SIM) == 11
    assert world.root[:, 0].tolist() == [0, 0, 0, 0] and gym.get_env_origin(env).x == 4
    state = world.root.clone()
    state[:, 2] += 0.5
    one = torch.tensor([3], dtype=torch.int32)
    gym.set_actor_root_state_tensor_indexed(world.sim, world.unwrap(state), world.unwrap(one), 1)
    world.refresh()
    torch.testing.assert_close(world.root[:, 2], torch.tensor([1.0, 1.2, 1.0, 1.7]))
    world.step(100)
    torch.testing.assert_close(world.force[0, 5, 2], torch.tensor(4 * 9.81), atol=0.2, rtol=0)  # rests on the arm
    on_arm = world.force[0, :5, 2].sum()  # forces between its own links cancel
    torch.testing.assert_close(on_arm, torch.tensor(-4 * 9.81), atol=0.2, rtol=0)
    apart = two_actors(gymapi, arm, group=10)
    apart.step(100)
    assert float(apart.root[1, 2]) < 1.0  # other groups do not touch


def test_positions_are_relative_to_the_origin_of_the_environment(gymapi, arm):
    """A force on the box at a point has the same effect in both environments, and in the world's frame with the
    origin added."""
    world = two_actors(gymapi, arm, group=10)
    gym, spins = world.gym, []
    torch.testing.assert_close(world.root[0], world.root[2])
    torch.testing.assert_close(world.body[0], world.body[1])
    assert gym.get_rigid_transform(world.envs[1], 5).p.x == pytest.approx(0.0, abs=1e-6)
    start = world.root.clone()
    for space, origin in ((gymapi.ENV_SPACE, 0.0), (gymapi.GLOBAL_SPACE, 4.0)):
        gym.set_actor_root_state_tensor(world.sim, world.unwrap(start))
        world.refresh()
        at, force = world.body[..., :3].clone(), torch.zeros(2, 6, 3)
        at[:, 5, 0] += 0.1
        at[1, :, 0] += origin
        force[:, 5, 2] = 3.0
        gym.apply_rigid_body_force_at_pos_tensors(world.sim, world.unwrap(force), world.unwrap(at), space)
        world.step(1)
        spins += world.root[1::2, 11].tolist()
    expected = -3.0 * 0.1 / (500 * 0.2**3 * 0.2**2 / 6) * 0.005
    np.testing.assert_allclose(spins, expected, rtol=1e-3)


def test_cameras_and_the_viewer_show_environments_at_their_origins(gymapi, arm):
    world = two_actors(gymapi, arm, group=10)
    gym, engine = world.gym, world.sim.engine
    props = gymapi.CameraProperties()
    props.width, props.height, props.horizontal_fov = 4, 2, 5.0
    for i, env in enumerate(world.envs):
        camera = gym.create_camera_sensor(env, props)
        gym.set_camera_location(camera, env, gymapi.Vec3(-2, 0, 1.2), gymapi.Vec3(0, 0, 1.2))
        depth = gym.get_camera_image(world.sim, env, camera, gymapi.IMAGE_DEPTH)
        assert float(depth.max()) == pytest.approx(-1.9, abs=1e-4)
        assert gym.get_camera_transform(world.sim, env, camera).p.x == pytest.approx(4 * i - 2)
    scene, option = mujoco.MjvScene(engine.model, maxgeom=20), mujoco.MjvOption()
    add_others(scene, engine, 0, mujoco.MjData(engine.model), option)
    at = np.array([geom.pos for geom in scene.geoms[: scene.ngeom]])
    assert scene.ngeom and (np.abs(at[:, 0] - 4) < 1).all()


def test_velocity_limits_of_one_actor_leave_the_other_as_it_is(gymapi, arm):
    def run(effort, limit):
        world = World(gymapi, arm, 0, setup=lambda params: setattr(params, "gravity", gymapi.Vec3()))
        env = world.gym.create_env(world.sim, gymapi.Vec3(), gymapi.Vec3(), 1)
        for name, x in (("first", 0.0), ("second", 3.0)):
            pose = gymapi.Transform(gymapi.Vec3(x, 0, 3))
            world.gym.create_actor(env, world.asset, pose, name, 0, 1)
        props = world.gym.get_actor_dof_properties(env, 1)
        props["velocity"] = [0.0, limit, 0.0]
        world.gym.set_actor_dof_properties(env, 1, props)
        world.envs, world.num_envs = [env], 1
        world.prepare().step(5, torch.tensor([[0.5, 0.02, 1.0, 0.0, effort, 0.0]]))
        return world

    slow, fast = run(0.02, limit=3.0), run(0.1, limit=3.0)
    assert slow.dof[0, 4, 1] < 3.0
    torch.testing.assert_close(fast.dof[0, 4, 1], torch.tensor(3.0))
    torch.testing.assert_close(fast.dof[0, :3], slow.dof[0, :3])
    torch.testing.assert_close(fast.root[0], slow.root[0])
    assert run(0.1, limit=0.0).dof[0, 4, 1] > 6.0


def test_fixed_base_moves_where_it_is_set(gymapi, arm):
    world = two_actors(gymapi, arm)
    state = world.root.clone()
    state[2, :3] += torch.tensor([0.5, 0.0, 0.3])
    index = torch.tensor([2], dtype=torch.int32)
    world.gym.set_actor_root_state_tensor_indexed(world.sim, world.unwrap(state), world.unwrap(index), 1)
    world.step(1)
    torch.testing.assert_close(world.body[1, 0, :3], torch.tensor([0.5, 0.0, 1.3]))
    torch.testing.assert_close(world.body[0, 0, :3], torch.tensor([0.0, 0.0, 1.0]))


def test_depth_camera_measures_distances_without_opengl(gymapi, box):
    def change(world, env, i):
        props = gymapi.CameraProperties()
        props.width, props.height, props.horizontal_fov, props.far_plane = 40, 20, 90.0, 30.0
        camera = world.gym.create_camera_sensor(env, props)
        world.gym.set_camera_location(camera, env, gymapi.Vec3(0.5 * i - 2, 0, 1), gymapi.Vec3(0.5 * i, 0, 1))
        down = gymapi.Transform(gymapi.Vec3(0, 0, -0.2), gymapi.Quat.from_euler_zyx(0, np.pi / 2, 0))
        below = world.gym.create_camera_sensor(env, props)
        world.gym.attach_camera_to_body(below, env, 0, down, gymapi.FOLLOW_TRANSFORM)

    world = World(gymapi, box, 2, height=1.0, change=change).prepare()
    tensor = world.torch.wrap_tensor(
        world.gym.get_camera_image_gpu_tensor(world.sim, world.envs[1], 1, gymapi.IMAGE_DEPTH)
    )
    for i in range(2):
        depth = world.gym.get_camera_image(world.sim, world.envs[i], 0, gymapi.IMAGE_DEPTH)
        assert depth.shape == (20, 40) and depth.dtype == np.float32
        np.testing.assert_allclose(depth[9:11, 19:21], -1.9, atol=1e-5)  # the box's side is 0.1 m before its centre
        assert np.isneginf(depth[0, 0])
        row = depth[19, 0]  # the ground: a plane at depth 1 / tan of the ray's angle down
        np.testing.assert_allclose(row, -1.0 / (9.5 / 20), rtol=1e-4)
    world.gym.render_all_camera_sensors(world.sim)
    np.testing.assert_allclose(tensor.numpy(), -0.8, atol=1e-5)


def test_segmentation_shows_the_ids_of_each_environment_s_bodies(gymapi, box):
    def change(world, env, i):
        props = gymapi.CameraProperties()
        props.width, props.height, props.enable_tensors = 40, 20, True
        camera = world.gym.create_camera_sensor(env, props)
        world.gym.set_camera_location(camera, env, gymapi.Vec3(0.5 * i - 2, 0, 1), gymapi.Vec3(0.5 * i, 0, 1))
        world.gym.set_rigid_body_segmentation_id(env, 0, 0, 7 + i)

    world = World(gymapi, box, 2, height=1.0, change=change).prepare()
    gym, kind = world.gym, gymapi.IMAGE_SEGMENTATION
    tensors = [world.torch.wrap_tensor(gym.get_camera_image_gpu_tensor(world.sim, env, 0, kind)) for env in world.envs]
    gym.render_all_camera_sensors(world.sim)
    for i, (env, tensor) in enumerate(zip(world.envs, tensors)):
        assert gym.get_rigid_body_segmentation_id(env, 0, 0) == 7 + i
        assert set(tensor.unique().tolist()) == {0, 7 + i} and int(tensor[10, 20]) == 7 + i
        assert gym.get_camera_image(world.sim, env, 0, kind)[10, 20] == 7 + i
    with pytest.raises(IndexError, match="set_rigid_body_segmentation_id: body 1; actor 'robot' has 1 bodies"):
        gym.set_rigid_body_segmentation_id(world.envs[0], 0, 1, 3)


def test_colour_picture_shows_the_box_before_the_ground(gymapi, box):
    def change(world, env, i):
        props = gymapi.CameraProperties()
        props.width, props.height = 40, 20
        camera = world.gym.create_camera_sensor(env, props)
        world.gym.set_camera_location(camera, env, gymapi.Vec3(-1, 0, 1), gymapi.Vec3(0, 0, 1))
        world.gym.set_rigid_body_color(env, 0, 0, gymapi.MESH_VISUAL, gymapi.Vec3(1, 0, 0))

    world = World(gymapi, box, 1, height=1.0, change=change).prepare()
    try:
        image = world.gym.get_camera_image(world.sim, world.envs[0], 0, gymapi.IMAGE_COLOR)
    except RuntimeError as error:
        pytest.skip(str(error))
    assert image.shape == (20, 160) and image.dtype == np.uint8
    red, green, blue, opaque = image.reshape(20, 40, 4)[10, 20].tolist()
    assert red > 100 and green < 60 and blue < 60 and opaque == 255
    sky, ground = image.reshape(20, 40, 4)[0, 0], image.reshape(20, 40, 4)[19, 0]
    assert sky[2] > sky[0] > 50 and 30 < ground[0] < 200


def test_unprovided_image_and_unknown_camera_and_body_are_refused(gymapi, box):
    world = World(gymapi, box, 1).prepare()
    with pytest.raises(IndexError, match="camera 0; environment 0 has 0 cameras"):
        world.gym.get_camera_image(world.sim, world.envs[0], 0, gymapi.IMAGE_DEPTH)
    camera = world.gym.create_camera_sensor(world.envs[0], gymapi.CameraProperties())
    with pytest.raises(NotImplementedError, match="IMAGE_OPTICAL_FLOW is not provided"):
        world.gym.get_camera_image(world.sim, world.envs[0], camera, gymapi.IMAGE_OPTICAL_FLOW)
    with pytest.raises(IndexError, match="attach_camera_to_body: body 1; environment 0 has 1 bodies"):
        world.gym.attach_camera_to_body(camera, world.envs[0], 1, gymapi.Transform(), gymapi.FOLLOW_TRANSFORM)


def test_box_rests_on_a_fixed_base_where_it_was_moved(gymapi, arm):
    """Shapes of a fixed base follow its pose."""
    world = two_actors(gymapi, arm)
    state = world.root.clone()
    state[2:, 0] += 1.0
    state[2:, 2] += 0.3
    both = torch.tensor([2, 3], dtype=torch.int32)
    world.gym.set_actor_root_state_tensor_indexed(world.sim, world.unwrap(state), world.unwrap(both), 2)
    world.step(100)
    torch.testing.assert_close(world.force[1, 5, 2], torch.tensor(4 * 9.81), atol=0.2, rtol=0)
    torch.testing.assert_close(world.root[3, 2] - world.root[1, 2], torch.tensor(0.3), atol=1e-3, rtol=0)


def test_centre_of_mass_of_a_box_is_used(gymapi, box):
    """A force at the centre of a box, whose centre of mass is 5 cm aside, turns it."""

    def change(world, env, i):
        bodies = world.gym.get_actor_rigid_body_properties(env, 0)
        bodies[0].com = gymapi.Vec3(0.05 * i, 0, 0)
        world.gym.set_actor_rigid_body_properties(env, 0, bodies, recomputeInertia=True)

    world = World(gymapi, box, 2, height=3.0, change=change).prepare()
    force = torch.tensor([[[0, 0, 2 * 9.81]]] * 2)
    at = world.body[..., :3].clone()
    world.gym.apply_rigid_body_force_at_pos_tensors(
        world.sim, world.unwrap(force), world.unwrap(at), gymapi.GLOBAL_SPACE
    )
    world.step(1)
    inertia = 2 * 0.2**2 / 6
    expected = torch.tensor([0.0, 0.05 * 2 * 9.81 / inertia * 0.005])
    torch.testing.assert_close(world.root[:, 11], expected, atol=1e-5, rtol=1e-3)
    aligned = World(gymapi, box, 2, height=3.0).prepare()
    bodies = aligned.gym.get_actor_rigid_body_properties(aligned.envs[1], 0)
    bodies[0].com = gymapi.Vec3(0.05, 0, 0)
    with pytest.raises(ValueError, match="another centre of mass of 'box' after prepare_sim"):
        aligned.gym.set_actor_rigid_body_properties(aligned.envs[1], 0, bodies, recomputeInertia=True)


def chain(tmp_path):
    """Three links that hang at one another, with hinges about y."""
    inertia = '<mass value="1"/><inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/>'
    link = '<link name="l{}"><inertial>' + inertia + "</inertial></link>"
    joint = (
        '<joint name="j{1}" type="revolute"><parent link="l{0}"/><child link="l{1}"/><axis xyz="0 1 0"/>'
        '<limit lower="-9" upper="9" effort="50" velocity="100"/></joint>'
    )
    parts = [*(link.format(i) for i in range(4)), *(joint.format(i, i + 1) for i in range(3))]
    (tmp_path / "chain.urdf").write_text(f'<robot name="chain">{"".join(parts)}</robot>')
    return tmp_path / "chain.urdf"


def test_limit_of_turning_holds_for_a_body_whose_joints_are_slower_each(gymapi, tmp_path):
    """Joints of 6, 6 and 6 rad/s turn the last link with 18 rad/s, above its limit of 10 rad/s."""
    spins = {}
    for limit in (10.0, 20.0):
        options = {"fix_base_link": True, "max_angular_velocity": limit}
        world = World(gymapi, chain(tmp_path), 1, 3.0, setup=without_gravity(gymapi), **options).prepare()
        world.dof[..., 1] = 6.0
        world.gym.set_dof_state_tensor(world.sim, world.unwrap(world.dof.view(-1, 2)))
        world.step(1)
        spins[limit] = float(world.body[0, -1, 11])
    assert spins[20.0] == pytest.approx(18.0, abs=0.1)
    assert spins[10.0] < 15.0


def without_gravity(gymapi):
    def setup(params):
        params.gravity = gymapi.Vec3(0.0, 0.0, 0.0)

    return setup
