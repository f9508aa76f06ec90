import math
from pathlib import Path

import mujoco
import numpy as np
import pytest
import torch

from rsl_rl.config.sim import SimConfig
from rsl_rl.robots.anymal_c import ANYMAL_C
from rsl_rl.robots.go2 import GO2
from rsl_rl.sim import SIMS
from rsl_rl.sim.base import RobotPoseVel
from rsl_rl.sim.mujoco_cpu import MujocoSim
from rsl_rl.sim.mujoco_robots import MujocoRobots
from rsl_rl.sim.mujoco_warp import MujocoWarpSim
from rsl_rl.utils.height_field import HeightField
from tests.sim import standing
from tests.sim.standing import PLANE, TILE, stand
from tests.sim.thorough_model import thorough_spec

N = 4
POSE = standing.POSE.repeat(N, 1)


@pytest.fixture(params=[MujocoSim, MujocoWarpSim], ids=["mujoco", "mujoco_warp"])
def make(request):
    """Build N robots on each of the engines that read the same model file; Warp's on its CPU device."""

    def build(num_envs: int = N, model_path: Path = GO2.model_path, ground=None, **settings) -> MujocoRobots:
        return request.param(model_path, num_envs, SimConfig(**settings), "cpu", ground)

    return build


@pytest.fixture(params=[PLANE, TILE], ids=["plane", "tile"])
def place(request):
    """Where a robot stands: the plane, or a tile of a height field."""
    return request.param


def test_the_robot_is_the_published_one(make):
    sim = make()
    assert sim.total_mass[0].item() == pytest.approx(6.921 + 4 * (0.678 + 1.152 + 0.154 + 0.04), abs=1e-4)
    abduction, front_hip, rear_hip, knee = (-1.0472, 1.0472), (-1.5708, 3.4907), (-0.5236, 4.5379), (-2.7227, -0.83776)
    legs = [(abduction, front_hip, knee)] * 2 + [(abduction, rear_hip, knee)] * 2
    torch.testing.assert_close(sim.joint_limits, torch.tensor([limit for leg in legs for limit in leg]))
    assert sim.torque_limits.tolist() == pytest.approx([23.7, 23.7, 45.43] * 4)
    assert [name[:2] for name in sim.joint_names[::3]] == ["FL", "FR", "RL", "RR"]
    model = mujoco.MjModel.from_xml_path(str(GO2.model_path))
    lengths = [np.linalg.norm(model.body(f"FL_{part}").pos) for part in ("hip", "thigh", "calf")]
    assert lengths == pytest.approx([math.hypot(0.1934, 0.0465), 0.0955, 0.213])


def test_left_and_right_weigh_the_same():
    model = mujoco.MjModel.from_xml_path(str(GO2.model_path))
    data = mujoco.MjData(model)
    data.qpos[7:] = GO2.default_joint_pos
    mujoco.mj_forward(model, data)
    legs = [i for i in range(model.nbody) if "_" in model.body(i).name]
    sideways = sum(model.body_mass[i] * data.xipos[i][1] for i in legs)
    assert sideways == pytest.approx(0, abs=1e-9)


def test_feet_that_stand_on_a_slope_slide_less_with_more_impedance(make):
    """Gravity is tilted by 0.2; the friction holds up to 0.8."""
    gravity = 9.81 * torch.tensor([0.2, 0.0, -1.0]) / math.hypot(0.2, 1.0)
    slid = []
    for impedance in (0.0, 0.999):
        sim = make(contact_impedance=impedance)
        stand(sim)
        sim.set_parameters({"gravity": gravity.repeat(N, 1)})
        for _ in range(50):
            sim.step(POSE, 4)
        start = sim.foot_pos[:, :, 0].clone()
        for _ in range(50):
            sim.step(POSE, 4)
        slid.append(float((sim.foot_pos[:, :, 0] - start).abs().max()))
    assert slid[0] > 2e-3 and slid[1] < 0.1 * slid[0], slid


def test_contact_impedance_allows_at_least_50_solver_iterations(make):
    assert make(contact_impedance=0.999).model.opt.iterations == 50
    assert make().model.opt.iterations == 10  # of the model file


def test_contacts_of_high_impedance_converge_with_random_joint_targets(tmp_path):
    """64 robots move as with a model file that allows a thousand iterations."""
    path_1000 = tmp_path / "go2.xml"
    path_1000.write_text(GO2.model_path.read_text().replace(' iterations="10"', ' iterations="1000"'))
    moved = []
    for path in (GO2.model_path, path_1000):
        sim = MujocoSim(path, 64, SimConfig(contact_impedance=0.999, num_threads=1), torch.device("cpu"))
        stand(sim)
        generator = torch.Generator().manual_seed(1)
        for _ in range(25):
            sim.step(standing.POSE + 0.3 * torch.randn(64, 12, generator=generator), 4)
        moved.append(sim.root_pos.clone())
    assert sim.model.opt.iterations == 1000 and torch.equal(*moved)


def test_the_robot_stands_and_the_floor_carries_its_weight(make, place):
    sim = make(ground=place.ground)
    stand(sim, place=place)
    for _ in range(150):
        sim.step(POSE, 4)
    assert (sim.root_pos[:, 2] - place.origin[2] > 0.25).all() and (sim.root_quat[:, 0] > 0.99).all()
    assert sim.root_lin_vel.abs().max() < 0.02 and sim.joint_vel.abs().max() < 0.1
    weight = sim.total_mass * 9.81
    torch.testing.assert_close(sim.contact_force[:, :, 2].sum(dim=1), weight, rtol=0.02, atol=0)
    feet = sim.contact_force[:, sim.link_indices(sim.foot_names), 2].sum(dim=1)
    torch.testing.assert_close(feet, weight, rtol=0.02, atol=0)  # on its feet and nothing else
    assert (sim.foot_pos[:, :, 2] - place.origin[2] - 0.022).abs().max() < 0.003
    assert (sim.joint_torque.abs() < sim.torque_limits).all()


def test_every_world_steps_like_mujoco_itself(make):
    """One batch of four worlds against plain mj_step, one world at a time, in contact: equal to float32 rounding."""
    sim = make()
    stand(sim)
    torch.manual_seed(1)
    model = mujoco.MjModel.from_xml_path(str(GO2.model_path))
    model.actuator_gainprm[:, 0], model.actuator_biasprm[:, 1], model.actuator_biasprm[:, 2] = 30, -30, -0.75
    worlds = [mujoco.MjData(model) for _ in range(N)]
    for world in worlds:
        world.qpos[:3], world.qpos[7:] = (0, 0, 0.32), np.array(GO2.default_joint_pos, dtype=np.float32)
        world.qpos[2] = np.float32(0.32)
    for _ in range(25):
        targets = POSE + 0.3 * torch.randn(N, 12)
        sim.step(targets, 4)
        for world, target in zip(worlds, targets.double().numpy()):
            world.ctrl[:] = target
            mujoco.mj_step(model, world, 4)
    expected = torch.tensor(np.array([world.qpos for world in worlds]), dtype=torch.float32)
    torch.testing.assert_close(
        torch.cat((sim.root_pos, sim.root_quat, sim.joint_pos), dim=1), expected, atol=1e-6, rtol=1e-6
    )
    speeds = torch.tensor(np.array([world.qvel for world in worlds]), dtype=torch.float32)
    torch.testing.assert_close(
        torch.cat((sim.root_lin_vel, sim.root_ang_vel, sim.joint_vel), dim=1), speeds, atol=1e-5, rtol=1e-5
    )


def test_a_reset_touches_only_the_masked_robots(make, place):
    sim = make(ground=place.ground)
    stand(sim, place=place)
    for _ in range(5):
        sim.step(POSE + 0.2, 4)
    before = sim.joint_pos.clone()
    stand(sim, mask=torch.tensor([True, False, False, True]), place=place)
    torch.testing.assert_close(sim.joint_pos[[0, 3]], POSE[[0, 3]])
    assert torch.equal(sim.joint_pos[[1, 2]], before[[1, 2]])
    for output in (sim.joint_torque, sim.contact_force):
        assert (output[[0, 3]] == 0).all() and (output[[1, 2]] != 0).any()


def test_after_a_reset_the_feet_are_where_the_pose_puts_them(make, place):
    sim = make(ground=place.ground)
    stand(sim, place=place)
    for _ in range(5):
        sim.step(POSE + 0.3, 4)
    old = sim.foot_pos.clone()
    stand(sim, mask=torch.tensor([True, False, False, False]), height=1.0, place=place)
    model = mujoco.MjModel.from_xml_path(str(GO2.model_path))
    data = mujoco.MjData(model)
    data.qpos[:] = [*place.origin, 1, 0, 0, 0, *GO2.default_joint_pos]
    data.qpos[2] += 1.0
    mujoco.mj_kinematics(model, data)
    expected = torch.tensor(np.array([data.site(name).xpos for name in sim.foot_names]), dtype=torch.float32)
    torch.testing.assert_close(sim.foot_pos[0], expected, atol=1e-6, rtol=0)
    assert torch.equal(sim.foot_pos[1:], old[1:]) and (sim.foot_vel[0] == 0).all()


def test_a_reset_forgets_everything(make, place):
    """A robot that was thrown about and reset goes on exactly like one that is new."""
    used, new = make(1, ground=place.ground), make(1, ground=place.ground)
    stand(used, place=place)
    for _ in range(20):
        used.step(POSE[:1] + torch.randn(1, 12), 4)
    stand(used, place=place)
    stand(new, place=place)
    for _ in range(20):
        used.step(POSE[:1], 4)
        new.step(POSE[:1], 4)
    assert torch.equal(used.joint_pos, new.joint_pos) and torch.equal(used.root_pos, new.root_pos)


def test_a_push_changes_the_velocity_of_the_masked_robots(make):
    sim = make()
    stand(sim)
    push = torch.tensor([[0.5, -0.2, 0.0]]).repeat(N, 1)
    sim.set_root_velocity(torch.tensor([True, False, False, False]), push, torch.zeros(N, 3))
    torch.testing.assert_close(sim.root_lin_vel[0], push[0])
    assert (sim.root_lin_vel[1:] == 0).all()


@pytest.mark.parametrize("searched", [False, True], ids=["pairs", "contype"])
def test_every_robot_has_parameters_of_its_own(searched, make, tmp_path):
    """Whether the model names the pairs of shapes that touch, or has the engine find them."""
    model_path = GO2.model_path
    if searched:
        spec = thorough_spec()
        spec.compile()
        model_path = tmp_path / "searched.xml"
        model_path.write_text(spec.to_xml())
    sim = make(model_path=model_path)
    assert bool(sim.model.npair) != searched
    sim.set_root_payload(torch.tensor([0.0, 1.0, 2.0, -1.0]))
    sim.set_friction(torch.tensor([0.05, 0.05, 1.0, 1.0]))
    sim.set_gains(torch.tensor([[30.0], [60.0], [30.0], [60.0]]).repeat(1, 12), torch.full((N, 12), 2.0))
    stand(sim)
    for _ in range(200):
        sim.step(POSE, 4)
    weight = 9.81 * (15.017 + torch.tensor([0.0, 1.0, 2.0, -1.0]))
    torch.testing.assert_close(sim.contact_force[:, :, 2].sum(dim=1), weight, rtol=0.02, atol=0)
    sag = (sim.joint_pos - POSE).abs().mean(dim=1)
    assert sag[1] < sag[0] and sag[3] < sag[2]  # stiffer joints give less
    # With friction 0.05 the floor can brake with 0.05 g, with 1.0 it stops the robot at once.
    sim.set_root_velocity(
        torch.ones(N, dtype=torch.bool), torch.tensor([[0.6, 0.0, 0.0]]).repeat(N, 1), torch.zeros(N, 3)
    )
    for _ in range(15):
        sim.step(POSE, 4)
    assert sim.root_lin_vel[0, 0] > 0.3 and sim.root_lin_vel[2, 0].abs() < 0.2


@pytest.mark.parametrize("num_substeps", [1, 4, 60])
def test_a_world_that_breaks_down_is_named_and_the_others_go_on(num_substeps, make, place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sim = make(ground=place.ground)
    stand(sim, place=place)
    sim.set_root_velocity(torch.tensor([False, True, False, False]), torch.full((N, 3), 1e12), torch.full((N, 3), 1e12))
    sim.step(POSE, num_substeps)
    assert sim.diverged.tolist() == [False, True, False, False]
    for name in ("root_pos", "joint_pos", "joint_vel", "root_lin_vel", "joint_torque", "contact_force", "foot_pos"):
        assert torch.isfinite(getattr(sim, name)).all(), name
    sim.step(POSE, num_substeps)
    assert not sim.diverged.any()  # named once
    assert list(tmp_path.iterdir()) == []  # and no log file in the user's folder


def test_a_world_faster_than_anything_is_given_up_before_its_numbers_run_out(make):
    sim = make()
    stand(sim, height=2.0)
    fast = torch.zeros(N, 3)
    fast[2, 0] = 1e11
    sim.set_root_velocity(torch.ones(N, dtype=torch.bool), fast, torch.zeros(N, 3))
    sim.step(POSE, 1)
    assert sim.diverged.tolist() == [False, False, True, False] and sim.root_lin_vel.abs().max() < 10


def test_a_new_simulation_is_in_the_models_default_state(make):
    sim = make()
    model = mujoco.MjModel.from_xml_path(str(GO2.model_path))
    state = torch.cat((sim.root_pos, sim.root_quat, sim.joint_pos), dim=1)
    torch.testing.assert_close(state, torch.tensor(model.qpos0, dtype=torch.float32).repeat(N, 1))
    assert (torch.cat((sim.root_lin_vel, sim.root_ang_vel, sim.joint_vel), dim=1) == 0).all()


def test_unknown_links_backends_and_devices_are_refused(make):
    with pytest.raises(ValueError, match=r"unknown links \['FL_toe'\].*FL_foot"):
        make(1).link_indices(["FL_toe"])
    with pytest.raises(ValueError, match=r"unknown sim backend 'mujcoo'.*Did you mean 'mujoco'"):
        SIMS.load("mujcoo")


def test_all_numbers_of_the_motion_can_be_looked_at_at_once(make):
    sim = make()
    stand(sim)
    sim.step(POSE + 0.1, 4)
    own = torch.cat([x.flatten() for x in sim.pose_vel()])
    shown = torch.cat([x.flatten() for x in sim.state_buffers()])
    assert torch.equal(shown.sort().values, own.sort().values)


def test_a_height_field_carries_the_robot(make):
    """On a slope along x: the feet are on it, the floor's force is the weight, and the names are those of the plane."""
    x = np.arange(-20, 21) * 0.1
    slope = HeightField(np.repeat((0.1 * x)[:, None], 41, axis=1).astype(np.float32), 0.1, (-2.0, -2.0))
    sim, plane = make(ground=slope), make()
    assert sim.link_names == plane.link_names and sim.ground is slope
    stand(sim, height=0.36)
    sim.set_friction(torch.ones(N))
    for _ in range(100):
        sim.step(POSE, 4)
    above = sim.foot_pos[:, :, 2] - 0.1 * sim.foot_pos[:, :, 0]
    assert (above - 0.022).abs().max() < 0.005
    weight = sim.total_mass * 9.81
    torch.testing.assert_close(sim.contact_force[:, :, 2].sum(dim=1), weight, rtol=0.03, atol=0)
    assert not sim.overflowed.any() and sim.foot_pos[:, :, 0].std() > 0.1


def test_a_shape_on_more_triangles_than_it_has_contacts_with_overflows_nothing(make):
    """ANYmal C on its back, whose trunk touches more than the 50 triangles that both engines look at."""
    level = HeightField(np.zeros((61, 61), dtype=np.float32), 0.1, (-3.0, -3.0))
    sim = make(1, ANYMAL_C.model_path, level)
    joints, still = torch.tensor([ANYMAL_C.default_joint_pos]), torch.zeros(1, 3)
    on_its_back = torch.tensor([[0.03, 0.0, 0.12]]), torch.tensor([[0.0, 1.0, 0.0, 0.0]])
    sim.reset(torch.tensor([True]), RobotPoseVel(*on_its_back, still, still, joints, torch.zeros(1, 12)))
    for _ in range(60):
        sim.step(joints, 4)
        assert not sim.overflowed.any()
    trunk = sim.contact_force[:, sim.link_indices(["trunk"])[0], 2]
    torch.testing.assert_close(trunk, sim.total_mass * 9.81, rtol=0.05, atol=0)


def test_a_model_without_a_floor_cannot_have_a_height_field(make, tmp_path):
    path = tmp_path / "no_floor.xml"
    path.write_text(GO2.model_path.read_text().replace('"floor"', '"street"'))
    flat = HeightField(np.zeros((2, 2), dtype=np.float32), 1.0, (0.0, 0.0))
    with pytest.raises(ValueError, match="no geom named 'floor', which the terrain replaces"):
        make(model_path=path, ground=flat)
