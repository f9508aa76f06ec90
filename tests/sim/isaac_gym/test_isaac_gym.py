"""The Isaac Gym backend on gymapi-mujoco: what is converted, when what is called, and what is refused."""

import importlib

import numpy as np
import pytest
import torch

from rsl_rl.config.sim import SimConfig
from rsl_rl.robots.go2 import GO2
from rsl_rl.sim.base import RobotPoseVel
from rsl_rl.sim.mujoco_cpu import MujocoSim
from rsl_rl.utils.height_field import HeightField
from tests.sim import standing
from tests.sim.isaac_gym.isaac_gym_package import instead_of_isaac_gym
from tests.sim.standing import stand

N = 4
POSE = standing.POSE.repeat(N, 1)
STATE = ("root_pos", "root_quat", "root_lin_vel", "root_ang_vel", "joint_pos", "joint_vel")
OUTPUTS = ("joint_torque", "contact_force", "foot_pos", "foot_vel")
TOLERANCE = {"joint_torque": 3e-3, "joint_vel": 4e-3, "root_ang_vel": 1e-3, "root_lin_vel": 5e-4, "foot_vel": 1e-3}
"""Of a parity test; positions are closer."""


@pytest.fixture
def calls(monkeypatch, tmp_path):
    """The package in Isaac Gym's place; the calls that were made."""
    monkeypatch.chdir(tmp_path)  # MuJoCo would log here
    yield from instead_of_isaac_gym(monkeypatch)


@pytest.fixture
def make(calls):
    """Make the backend."""

    def build(num_envs: int = N, cfg: SimConfig = SimConfig(num_threads=1), **settings):  # noqa: B008
        sim = importlib.import_module("rsl_rl.sim.isaacgym.engine").IsaacGymSim(
            GO2.model_path, num_envs, cfg, **settings
        )
        sim._scene.__class__._open = False  # the package has no limit of one
        return sim

    return build


def engine(sim):
    """The package's engine, after the first step."""
    return sim._scene.sim.engine


def random_state(n: int = N):
    quat = torch.nn.functional.normalize(torch.tensor([1.0, 0, 0, 0]) + 0.2 * torch.randn(n, 4), dim=1)
    pos = torch.tensor([0.3, -0.2, 0.5]) + 0.1 * torch.randn(n, 3)
    return (pos, quat, torch.randn(n, 3), torch.randn(n, 3), POSE[:n] + 0.2 * torch.randn(n, 12), torch.randn(n, 12))


def test_joints_links_feet_and_limits_are_those_of_the_other_engines(make):
    ours, reference = make(), MujocoSim(GO2.model_path, N, SimConfig(num_threads=1))
    for name in ("joint_names", "link_names", "foot_names"):
        assert getattr(ours, name) == getattr(reference, name)
    for name in ("joint_limits", "torque_limits", "total_mass", *STATE[:2]):
        torch.testing.assert_close(getattr(ours, name), getattr(reference, name), rtol=1e-6, atol=0)
    for name in (*STATE, *OUTPUTS, "diverged", "overflowed"):
        own, other = getattr(ours, name), getattr(reference, name)
        assert own.shape == other.shape and own.dtype == other.dtype, name


def test_control_steps_in_the_air_are_those_of_mujoco(make):
    """The package is MuJoCo seen through Isaac Gym's conventions: undone, they leave MuJoCo's numbers, with pushes,
    resets, payloads and gains. Contacts have settings of their own there. Torques are computed in float32 here and in
    float64 there."""
    torch.manual_seed(3)
    ours, reference = make(), MujocoSim(GO2.model_path, N, SimConfig(num_threads=1))
    high = torch.tensor([0.0, 0.0, 8.0])
    for sim in (ours, reference):
        sim.set_root_payload(torch.tensor([-1.0, 0.0, 1.0, 2.0]))
        sim.set_gains(torch.full((N, 12), 25.0) + torch.arange(12), torch.full((N, 12), 0.6) + 0.01 * torch.arange(12))
    start = random_state()
    for sim in (ours, reference):
        sim.reset(torch.ones(N, dtype=torch.bool), RobotPoseVel(start[0] + high, *start[1:]))
    torch.testing.assert_close(ours.total_mass, reference.total_mass)
    for step in range(30):
        targets = POSE + 0.3 * torch.randn(N, 12)
        state, mask = random_state(), torch.rand(N) < 0.06
        pushed, lin_vel, ang_vel = torch.rand(N) < 0.1, torch.randn(N, 3), torch.randn(N, 3)
        for sim in (ours, reference):
            sim.step(targets, 4)
        for name in (*STATE, *OUTPUTS):
            error = (getattr(ours, name) - getattr(reference, name)).abs().max()
            assert error < TOLERANCE.get(name, 1e-4), f"{name} in step {step}: {error:g}"
        assert not ours.diverged.any() and not ours.overflowed.any()
        for sim in (ours, reference):
            sim.reset(mask, RobotPoseVel(state[0] + high, *state[1:]))
            sim.set_root_velocity(pushed, lin_vel, ang_vel)
        for name in (*STATE, "foot_pos", "foot_vel"):
            torch.testing.assert_close(getattr(ours, name)[mask & ~pushed], getattr(reference, name)[mask & ~pushed])


def test_standing_robot_is_carried_by_its_feet(make):
    ours, reference = make(), MujocoSim(GO2.model_path, N, SimConfig(num_threads=1, contact_impedance=0.999))
    for sim in (ours, reference):
        stand(sim)
        for _ in range(75):
            sim.step(POSE, 4)
    feet = ours.link_indices(ours.foot_names)
    weight = 9.81 * ours.total_mass
    torch.testing.assert_close(ours.contact_force[:, feet, 2].sum(1), weight, rtol=0.02, atol=0)
    assert ours.contact_force[:, :, 2].count_nonzero() == 4 * N
    torch.testing.assert_close(ours.root_pos[:, 2], reference.root_pos[:, 2], atol=0.01, rtol=0)
    torch.testing.assert_close(ours.joint_pos, reference.joint_pos, atol=0.03, rtol=0)


def test_all_numbers_of_the_motion_can_be_looked_at_at_once(make):
    sim = make()
    stand(sim)
    sim.step(POSE + 0.1, 4)
    own = torch.cat([x.flatten() for x in sim.pose_vel()])
    assert torch.equal(torch.cat([x.flatten() for x in sim.state_buffers()]), own)


def test_what_nobody_sets_is_what_the_mjcf_says(make):
    """In the air, where the rounding of the friction is not felt."""
    ours, reference = make(), MujocoSim(GO2.model_path, N, SimConfig(num_threads=1))
    for sim in (ours, reference):
        stand(sim, height=2.0)
        for _ in range(5):
            sim.step(POSE + 0.3, 4)
    torch.testing.assert_close(ours.joint_torque, reference.joint_torque, atol=1e-3, rtol=1e-4)
    torch.testing.assert_close(ours.joint_pos, reference.joint_pos, atol=1e-5, rtol=1e-5)


def test_the_engine_hears_of_all_writes_at_once_and_of_nothing_else(make, calls):
    sim = make()
    sim.reset(torch.ones(N, dtype=torch.bool), RobotPoseVel(*random_state()))
    sim.set_root_velocity(torch.tensor([True, False, False, False]), torch.ones(N, 3), torch.zeros(N, 3))
    sim.step(POSE, 2)
    assert [name for name in calls if name.startswith("set_") and "tensor" in name] == [
        "set_actor_root_state_tensor_indexed",
        "set_dof_state_tensor_indexed",
        "set_dof_actuation_force_tensor",
        "set_dof_actuation_force_tensor",
    ]
    calls.clear()
    sim.step(POSE, 1)
    assert not any("indexed" in name or "prepare" in name for name in calls)
    calls.clear()
    sim.set_root_velocity(torch.tensor([False, False, True, False]), torch.ones(N, 3), torch.zeros(N, 3))
    before = engine(sim).coordinates.qpos.clone()
    sim._write_states()
    assert torch.equal(engine(sim).coordinates.qpos[[0, 1, 3]], before[[0, 1, 3]])
    assert sim._ids.tolist() == [2]


def test_a_broken_robot_is_named_once_and_the_others_walk_on(make):
    sim, alone = make(), make()
    for one in (sim, alone):
        stand(one)
        one.step(POSE, 4)
    sim.set_root_velocity(torch.tensor([False, True, False, False]), torch.full((N, 3), 1e20), torch.full((N, 3), 1e20))
    alone.step(POSE, 4)
    with pytest.warns(UserWarning, match="environment 1 diverged"):
        sim.step(POSE, 4)
    assert sim.diverged.tolist() == [False, True, False, False]
    for name in (*STATE, *OUTPUTS):
        assert torch.isfinite(getattr(sim, name)).all(), name
        assert torch.equal(getattr(sim, name)[[0, 2, 3]], getattr(alone, name)[[0, 2, 3]]), name
    sim.step(POSE, 4)
    assert not sim.diverged.any() and torch.isfinite(sim.physics_state()).all()


def test_a_saved_simulation_goes_on(make):
    """Up to the start of the solver, which cannot be saved, on PhysX neither."""
    sim, other = make(), make()
    other.step(POSE, 4)  # somewhere else
    sim.set_friction(torch.tensor([0.25, 0.5, 0.75, 1.0]))
    sim.set_root_payload(torch.tensor([0.5, 0.0, 1.0, 2.0]))
    sim.reset(torch.ones(N, dtype=torch.bool), RobotPoseVel(*random_state()))
    for _ in range(10):
        sim.step(POSE, 4)
    other.load_state_dict(sim.state_dict())
    assert torch.equal(other.physics_state(), sim.physics_state()) and torch.equal(other.foot_pos, sim.foot_pos)
    assert other.parameters_of(2)["payload"] == 1.0 and torch.equal(other.total_mass, sim.total_mass)
    for _ in range(5):
        sim.step(POSE, 4)
        other.step(POSE, 4)
    torch.testing.assert_close(other.physics_state(), sim.physics_state(), atol=2e-3, rtol=1e-3)
    with pytest.raises(ValueError, match=r"\[4, 37\] and this simulation needs \[2, 37\].*--fresh_episodes"):
        make(2).load_state_dict(sim.state_dict())


def test_on_a_gpu_payloads_are_set_before_the_first_step(make):
    sim = make()
    sim.set_root_payload(torch.tensor([0.5, 0.0, 1.0, 2.0]))
    stand(sim)
    sim.set_root_payload(torch.tensor([0.5, 0.0, 1.0, 1.5]))  # a resumed run: made, reset, then loaded
    sim.step(POSE, 4)
    sim._scene.on_gpu = True  # no GPU is needed to be refused one
    sim.set_root_payload(torch.tensor([0.5, 0.0, 1.0, 1.5]))
    sim.set_friction(torch.ones(N))
    with pytest.raises(ValueError, match=r"payload differ.*cannot change masses on a GPU.*--sim_device cpu"):
        sim.set_root_payload(torch.zeros(N))
    with pytest.raises(ValueError, match=r"a payload of -7 kg takes off all of the trunk's 6.92 kg"):
        make().set_root_payload(torch.full((N,), -7.0))


def test_frictions_share_materials_and_reach_contact_as_they_were_asked_for(make):
    sim = make()
    sim.set_friction(torch.tensor([0.0, 0.3, 0.3004, 1.0]))
    stand(sim)
    sim.step(POSE, 1)
    friction = engine(sim).worlds.field("geom_friction")[:, -1, 0]
    np.testing.assert_allclose(friction, [0.0, 0.3, 0.3004, 1.0], atol=0.5 / 512)
    assert friction[1] == friction[2]
    untouched = make()
    stand(untouched)
    untouched.step(POSE, 1)  # the MJCF's 0.8, to the same 1/512
    np.testing.assert_allclose(engine(untouched).worlds.field("geom_friction")[:, 1:, 0], 0.8, atol=0.5 / 512)


def test_robots_stand_apart_in_the_engine_and_at_the_origin_for_us(make):
    sim = make(9)
    stand(sim)
    sim.step(POSE[:1].repeat(9, 1), 1)
    places = engine(sim).coordinates.qpos[:, :2]
    assert torch.cdist(places, places)[~torch.eye(9, dtype=torch.bool)].min() > 2.5
    assert sim.root_pos[:, :2].abs().max() < 1e-3


def test_a_height_field_is_laid_out_as_the_engine_reads_it(make):
    heights = np.array([[0.0, 0.1, 0.2], [1.0, 1.1, 1.2]])  # two points along x, three along y
    sim = make(ground=HeightField(heights, 0.25, (-1.0, 2.0)))
    (field,) = sim._scene.sim.scene.grounds
    assert field.cell == (0.25, 0.25) and field.origin.tolist() == [-1.0, 2.0, 0.0]
    np.testing.assert_allclose(field.heights, heights)
    assert (sim._origins == 0).all()  # all robots on one map
    with pytest.raises(ValueError, match=r"40 m.*32.767 m"):
        make(ground=HeightField(np.full((2, 2), 40.0), 0.25, (0.0, 0.0)))


def test_the_devices_that_there_are_not_are_refused_in_one_line(make, monkeypatch):
    with pytest.raises(ValueError, match="sim_device=tpu: the backend 'isaacgym' runs on cpu, cuda or cuda:<number>"):
        make(device="tpu")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(ValueError, match="sim_device=cuda:2: torch sees 2 GPUs here"):
        make(device="cuda:2")


def test_a_missing_engine_says_where_to_get_it_and_a_late_one_what_to_import_first(run_script):
    code = "import rsl_rl.sim.isaacgym.engine"
    missing = run_script("-c", code)
    assert "ModuleNotFoundError: No module named 'isaacgym': the backend 'isaacgym' is NVIDIA's" in missing.stderr
    late = run_script(
        "-c",
        f"""if True:
        import sys, types
        class Refuse:
            def find_spec(self, name, *_):
                if name == 'isaacgym': raise ImportError('PyTorch was imported before isaacgym modules')
        sys.meta_path.insert(0, Refuse())
        {code}""",
    )
    assert "ValueError: Isaac Gym cannot be imported (PyTorch was imported before" in late.stderr


def test_a_robot_without_a_urdf_or_with_another_one_is_refused(calls, tmp_path):
    mjcf = tmp_path / "robot.xml"
    mjcf.write_text(GO2.model_path.read_text())
    backend = importlib.import_module("rsl_rl.sim.isaacgym.engine").IsaacGymSim
    with pytest.raises(ValueError, match=r"robot.urdf is missing.*write one"):
        backend(mjcf, 1, SimConfig())
    urdf = GO2.model_path.with_suffix(".urdf").read_text()
    (tmp_path / "robot.urdf").write_text(urdf.replace("FL_calf_joint", "FL_knee_joint"))
    with pytest.raises(ValueError, match="the URDF has no joint 'FL_calf_joint'"):
        backend(mjcf, 1, SimConfig())
    (tmp_path / "robot.urdf").write_text(
        urdf.replace('<origin xyz="0 0 -0.213"/>', '<origin xyz="0 0 0" rpy="0 1 0"/>')
    )
    with pytest.raises(ValueError, match="has an rpy"):
        backend(mjcf, 1, SimConfig())
