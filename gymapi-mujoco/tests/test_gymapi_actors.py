"""Calls for one actor or body: scale, attractors, efforts and targets; the warning of explicit damping."""

import warnings

import mujoco
import numpy as np
import pytest
import torch
from robots import GO2, World

pytestmark = pytest.mark.usefixtures("engine")


def test_scaled_box_rests_higher_and_is_heavier(gymapi, box):
    def double(world, env, i):
        assert world.gym.set_actor_scale(env, 0, 2.0) and world.gym.get_actor_scale(env, 0) == 2.0
        assert world.gym.get_actor_rigid_body_properties(env, 0)[0].mass == 16.0

    world = World(gymapi, box, 2, height=0.2, change=double).prepare()
    world.step(200)
    torch.testing.assert_close(world.root[:, 2], torch.full((2,), 0.2), atol=2e-3, rtol=0)
    torch.testing.assert_close(world.force[:, 0, 2], torch.full((2,), 16 * 9.81), atol=0.2, rtol=0)
    inertia = world.gym.get_actor_rigid_body_properties(world.envs[0], 0)[0].inertia.x.x
    assert inertia == pytest.approx(32 * 2 * 0.2**2 / 6)


def test_scaled_arm_has_its_anchors_and_prismatic_limits_scaled(gymapi, arm):
    def half(world, env, i):
        world.gym.set_actor_scale(env, 0, 0.5)

    before = World(gymapi, arm, 1, fix_base_link=True).prepare()
    after = World(gymapi, arm, 1, fix_base_link=True, change=half).prepare()
    for world in (before, after):
        world.refresh()
    ours, theirs = (world.body[0, :, :3] - world.body[0, :1, :3] for world in (after, before))
    torch.testing.assert_close(ours, 0.5 * theirs)
    limits = [world.gym.get_actor_dof_properties(world.envs[0], 0) for world in (after, before)]
    slide = after.gym.get_actor_dof_names(after.envs[0], 0).index("b_slide")
    np.testing.assert_allclose(limits[0]["upper"][slide], 0.5 * limits[1]["upper"][slide])
    np.testing.assert_allclose(np.delete(limits[0]["upper"], slide), np.delete(limits[1]["upper"], slide))


def test_scale_that_differs_between_environments_or_is_no_number_is_refused(gymapi, box):
    def own(world, env, i):
        world.gym.set_actor_scale(env, 0, 1.0 + i)

    with pytest.raises(NotImplementedError, match=r"environment 1 has other assets .* of the same scale"):
        World(gymapi, box, 2, change=own).prepare()
    world = World(gymapi, box, 1)
    with pytest.raises(ValueError, match="set_actor_scale: nan; give a number above zero"):
        world.gym.set_actor_scale(world.envs[0], 0, float("nan"))


def attracted(gymapi, robot, axes, **options):
    """Boxes in the air, each held 0.1 m before its centre, and turned by 90 degrees if the orientation is held."""

    def pull(world, env, i):
        props = gymapi.AttractorProperties()
        props.axes, props.stiffness, props.damping = axes, 5e7, 5e3
        props.target = gymapi.Transform(gymapi.Vec3(0.1 + 0.5 * i, 0.0, 1.0), gymapi.Quat(0, 0, 0.5**0.5, 0.5**0.5))
        props.offset = gymapi.Transform(gymapi.Vec3(0.1, 0, 0))
        assert world.gym.create_rigid_body_attractor(env, props) == 0

    return World(gymapi, robot, 2, height=1.0, change=pull, **options).prepare()


def held_points(world):
    return world.root[:, :3] + turned(world.root[:, 3:7], torch.tensor([0.1, 0.0, 0.0]))


def test_attractor_of_the_position_holds_the_point_and_follows_its_target(gymapi, box):
    world = attracted(gymapi, box, gymapi.AXIS_TRANSLATION)
    world.step(60)
    torch.testing.assert_close(held_points(world), torch.tensor([[0.1, 0.0, 1.0], [0.6, 0.0, 1.0]]), atol=2e-3, rtol=0)
    assert float(world.root[0, 2]) < 0.99  # it swings
    world.gym.set_attractor_target(world.envs[1], 0, gymapi.Transform(gymapi.Vec3(0.6, 0.0, 1.02)))
    world.step(20)
    torch.testing.assert_close(held_points(world)[:, 2], torch.tensor([1.0, 1.02]), atol=2e-3, rtol=0)


def test_attractor_of_the_pose_holds_position_and_orientation(gymapi, box):
    world = attracted(gymapi, box, gymapi.AXIS_ALL)
    world.step(300)
    torch.testing.assert_close(world.root[:, 5:7], torch.full((2, 2), 0.5**0.5), atol=2e-3, rtol=0)
    torch.testing.assert_close(world.root[:, :3], torch.tensor([[0.1, -0.1, 1.0], [0.6, -0.1, 1.0]]), atol=2e-3, rtol=0)


def test_attractor_without_axes_lets_the_body_fall(gymapi, box):
    world = attracted(gymapi, box, gymapi.AXIS_TRANSLATION)
    props = world.gym.get_attractor_properties(world.envs[0], 0)
    props.axes = gymapi.AXIS_NONE
    world.gym.set_attractor_properties(world.envs[0], 0, props)
    world.step(400)
    assert float(world.root[0, 2]) < 0.11 and float(world.root[1, 2]) > 0.8


def test_attractors_that_are_not_provided_are_refused(gymapi, box):
    world, props = World(gymapi, box, 1), gymapi.AttractorProperties()
    props.axes = gymapi.AXIS_X
    with pytest.raises(NotImplementedError, match="an attractor with the axes 1; it can have AXIS_TRANSLATION"):
        world.gym.create_rigid_body_attractor(world.envs[0], props)
    props.axes, props.rigid_handle = gymapi.AXIS_ALL, 4
    with pytest.raises(IndexError, match="create_rigid_body_attractor: body 4; environment 0 has 1"):
        world.gym.create_rigid_body_attractor(world.envs[0], props)
    with pytest.raises(IndexError, match="attractor 0; environment 0 has 0 attractors"):
        world.gym.set_attractor_target(world.envs[0], 0, gymapi.Transform())


def turned(quat, vector):
    axis, w = quat[:, :3], quat[:, 3:]
    twice = 2 * torch.linalg.cross(axis, vector.expand(axis.shape))
    return vector + w * twice + torch.linalg.cross(axis, twice)


def test_efforts_and_targets_of_one_actor_are_those_of_its_dofs(gymapi, arm):
    def drive(world, env, i):
        props = world.gym.get_actor_dof_properties(env, 0)
        props["driveMode"], props["stiffness"], props["damping"] = int(gymapi.DOF_MODE_POS), 20.0, 1.0
        world.gym.set_actor_dof_properties(env, 0, props)

    world = World(gymapi, arm, 2, height=3.0).prepare()
    world.gym.apply_actor_dof_efforts(world.envs[1], 0, np.array([1.0, 0.5, -2.0], np.float32))
    world.step(1)
    assert world.gym.get_actor_dof_forces(world.envs[1], 0).tolist() == [1.0, 0.5, -2.0]
    assert world.gym.get_actor_dof_forces(world.envs[0], 0).tolist() == [0.0, 0.0, 0.0]
    driven = World(gymapi, arm, 2, height=3.0, fix_base_link=True, change=drive).prepare()
    driven.gym.set_actor_dof_position_targets(driven.envs[0], 0, np.array([0.3, 0.0, 0.1], np.float32))
    driven.gym.set_actor_dof_velocity_targets(driven.envs[0], 0, np.array([0.0, 0.0, 0.2], np.float32))
    driven.step(300)
    np.testing.assert_allclose(driven.gym.get_actor_dof_position_targets(driven.envs[0], 0), [0.3, 0.0, 0.1])
    np.testing.assert_allclose(driven.gym.get_actor_dof_velocity_targets(driven.envs[0], 0), [0.0, 0.0, 0.2])
    assert float(driven.dof[0, 0, 0] - driven.dof[1, 0, 0]) > 0.2


def test_damping_of_the_client_that_is_unstable_is_named_and_an_armature_ends_it(gymapi, arm, engine):
    if engine == "warp":
        pytest.skip("the efforts are watched on the CPU engine")

    def run(armature, damping=0.2, held=0, limit=0.3):
        """Let a client damp the wheel, which stands still in ``held`` of seven steps."""
        world = World(gymapi, arm, 2, height=3.0, armature=armature, fix_base_link=True).prepare()
        factors = torch.tensor([0.0, damping, 0.0])  # the wheel has 2e-4 kg m^2: kd dt / I = 5 with 0.2
        for step in range(120):
            if step == 0 or step % 7 < held:
                world.dof[..., 1] = 0.0
                world.gym.set_dof_state_tensor(world.sim, world.unwrap(world.dof.view(-1, 2)))
            world.step(1, lambda: (factors * (0.1 - world.dof[..., 1])).clamp(-limit, limit))

    for held, limit in ((0, 0.3), (4, 3.0)):
        with pytest.warns(UserWarning, match=r"damping of .Z_spin. is unstable.*kd dt / I"):
            run(0.0, held=held, limit=limit)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(0.01)
        run(0.0, damping=0.06)


@pytest.mark.parametrize(("version", "is_sparse"), [("4.0.0", 0), ("4.0.1", 1)])
def test_solver_of_an_environment_with_many_joints_is_the_one_that_is_right(
    gymapi, engine, monkeypatch, version, is_sparse
):
    if engine == "warp":
        pytest.skip("MuJoCo Warp has a solver of its own")
    monkeypatch.setattr(mujoco, "mj_versionString", lambda: version)

    def add_robots(world, env, i):
        for k in range(1, 4):
            pose = gymapi.Transform(gymapi.Vec3(0.0, 0.2 * k, 1.0))
            world.gym.create_actor(env, world.asset, pose, f"robot {k}", i, 1)

    world = World(gymapi, GO2, num_envs=1, change=add_robots)
    world.gym.prepare_sim(world.sim)
    model = world.sim.engine.worlds.get_model(0)
    assert model.nv == 72 and mujoco.mj_isSparse(model) == is_sparse


def test_unknown_cone_is_refused(gymapi, box, monkeypatch):
    monkeypatch.setenv("GYMAPI_MUJOCO_CONE", "round")
    with pytest.raises(ValueError, match="GYMAPI_MUJOCO_CONE=round; give pyramidal or elliptic"):
        World(gymapi, box, 1).prepare()
