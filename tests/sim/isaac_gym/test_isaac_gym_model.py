"""The URDF is the robot of the MJCF, and what is read of both is what MuJoCo reads."""

import mujoco
import numpy as np
import pytest
import torch

from rsl_rl.config.sim import SimConfig
from rsl_rl.robots import ROBOTS
from rsl_rl.sim.base import RobotPoseVel
from rsl_rl.sim.isaacgym.model import chain_of, read_facts
from rsl_rl.sim.kinematics import LinkKinematics
from rsl_rl.sim.mujoco_cpu import MujocoSim


@pytest.fixture(params=ROBOTS.names())
def robot(request):
    return ROBOTS.load(request.param)


@pytest.fixture
def mjcf(robot):
    return mujoco.MjModel.from_xml_path(str(robot.model_path))


@pytest.fixture
def urdf(robot, tmp_path):
    """The URDF on a floating joint, as MuJoCo compiles it: it merges the links on fixed joints, as the MJCF does."""
    free = '<link name="air"/><joint name="root" type="floating"><parent link="air"/><child link="trunk"/></joint>'
    path = tmp_path / "robot.urdf"
    path.write_text(robot.model_path.with_suffix(".urdf").read_text().replace("</robot>", f"{free}</robot>"))
    return mujoco.MjModel.from_xml_path(str(path))


def inertia(model, body):
    """A body's inertia about its centre of mass in its own axes, [3, 3]."""
    turn = np.empty(9)
    mujoco.mju_quat2Mat(turn, model.body_iquat[body])
    turn = turn.reshape(3, 3)
    return turn @ np.diag(model.body_inertia[body]) @ turn.T


def test_the_urdf_weighs_what_the_mjcf_weighs(mjcf, urdf):
    """The MJCF writes a foot and the link above as one body, to six digits; the URDF as two, which add up to that."""
    bodies = [mjcf.body(i).name for i in range(1, mjcf.nbody)]
    assert bodies == [urdf.body(i).name for i in range(1, urdf.nbody)]
    np.testing.assert_allclose(urdf.body_mass, mjcf.body_mass, rtol=1e-9)
    np.testing.assert_allclose(urdf.body_pos[2:], mjcf.body_pos[2:], atol=1e-9)
    np.testing.assert_allclose(urdf.body_ipos, mjcf.body_ipos, atol=3e-7)
    for body in range(1, mjcf.nbody):
        np.testing.assert_allclose(
            inertia(urdf, body), inertia(mjcf, body), atol=5.1e-9, rtol=5e-6, err_msg=bodies[body - 1]
        )


def test_the_urdf_has_the_joints_of_the_mjcf(mjcf, urdf):
    assert [urdf.joint(i).name for i in range(urdf.njnt)] == [mjcf.joint(i).name for i in range(mjcf.njnt)]
    for field in ("jnt_type", "jnt_bodyid", "jnt_axis", "jnt_range", "dof_damping"):
        np.testing.assert_allclose(getattr(urdf, field)[1:], getattr(mjcf, field)[1:], atol=1e-12, err_msg=field)
    np.testing.assert_allclose(urdf.dof_damping, mjcf.dof_damping)
    np.testing.assert_allclose(urdf.jnt_actfrcrange[1:], mjcf.actuator_forcerange)


def test_the_urdf_touches_the_floor_with_the_shapes_of_the_mjcf(mjcf, urdf):
    """Cylinders stand for capsules of their length, which Isaac Gym makes of them."""
    assert {mjcf.geom(i).name for i in mjcf.pair_geom1} == {"floor"} and not mjcf.geom_contype.any()
    solid = sorted(mjcf.pair_geom2)
    assert len(solid) == urdf.ngeom
    kinds = {int(mujoco.mjtGeom.mjGEOM_CAPSULE): int(mujoco.mjtGeom.mjGEOM_CYLINDER)}
    for own, other in zip(range(urdf.ngeom), solid):
        kind = int(mjcf.geom_type[other])
        assert urdf.geom_type[own] == kinds.get(kind, kind)
        assert urdf.body(urdf.geom_bodyid[own]).name == mjcf.body(mjcf.geom_bodyid[other]).name
        np.testing.assert_allclose(urdf.geom_size[own], mjcf.geom_size[other], atol=1e-8)
        np.testing.assert_allclose(urdf.geom_pos[own], mjcf.geom_pos[other], atol=1e-9)
        axes = np.empty((2, 9))
        mujoco.mju_quat2Mat(axes[0], urdf.geom_quat[own])
        mujoco.mju_quat2Mat(axes[1], mjcf.geom_quat[other])
        along = axes.reshape(2, 3, 3)[:, :, 2]
        assert abs(along[0] @ along[1]) == pytest.approx(1, abs=1e-9)  # either way round


def test_what_only_the_mjcf_says_is_read_as_mujoco_reads_it(robot, mjcf):
    facts, sim = read_facts(robot.model_path), MujocoSim(robot.model_path, 1, SimConfig(num_threads=1))
    for name in ("joint_names", "link_names", "foot_names"):
        assert getattr(facts, name) == getattr(sim, name)
    assert facts.root_name == mjcf.body(mjcf.jnt_bodyid[0]).name and facts.start_height == mjcf.qpos0[2]
    for field, value in (
        ("geom_friction", facts.friction),
        ("pair_friction", facts.friction),
        ("dof_damping", facts.joint_damping),
        ("dof_armature", facts.armature),
        ("actuator_gainprm", facts.stiffness),
    ):
        numbers = getattr(mjcf, field)
        numbers = numbers[6:] if field.startswith("dof") else numbers[:, 0]
        np.testing.assert_allclose(numbers, value)  # nothing overrides the outermost default
    np.testing.assert_allclose(mjcf.actuator_biasprm[:, 2], -facts.damping)


def test_a_model_without_defaults_is_refused(tmp_path):
    (tmp_path / "bare.xml").write_text("<mujoco><worldbody><body name='trunk'/></worldbody></mujoco>")
    with pytest.raises(ValueError, match=r"bare.xml has no body, or no default.*like go2.xml"):
        read_facts(tmp_path / "bare.xml")


def test_the_feet_are_where_mujoco_has_them_and_as_fast(robot):
    torch.manual_seed(1)
    n, sim = 5, MujocoSim(robot.model_path, 5, SimConfig(num_threads=1))
    quat = torch.nn.functional.normalize(torch.randn(n, 4), dim=1)
    joints = len(sim.joint_names)
    pose = torch.tensor(robot.default_joint_pos) + 0.3 * torch.randn(n, joints)
    state = (torch.randn(n, 3), quat, torch.randn(n, 3), torch.randn(n, 3), pose, torch.randn(n, joints))
    sim.reset(torch.ones(n, dtype=torch.bool), RobotPoseVel(*state))
    urdf = robot.model_path.with_suffix(".urdf")
    feet = LinkKinematics([chain_of(urdf, foot, sim.joint_names) for foot in sim.foot_names], torch.device("cpu"))
    pos, vel, turn, _ = feet(RobotPoseVel(*state))
    torch.testing.assert_close(pos, sim.foot_pos, atol=2e-6, rtol=0)
    torch.testing.assert_close(vel, sim.foot_vel, atol=5e-6, rtol=0)
    if sim.foot_up.shape[1]:
        torch.testing.assert_close(turn[..., 2], sim.foot_up, atol=2e-6, rtol=0)
