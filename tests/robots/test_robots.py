"""Every shipped robot is the published one, stands on its feet, and is its own mirror image."""

import mujoco
import numpy as np
import pytest
import torch

from rsl_rl.config.sim import SimConfig
from rsl_rl.robots import ROBOTS
from rsl_rl.robots.robot import Robot
from rsl_rl.sim.base import RobotPoseVel
from rsl_rl.sim.mujoco_cpu import MujocoSim
from rsl_rl.sim.mujoco_warp import MujocoWarpSim

NEW = ("anymal_c", "g1", "h1")
PUBLISHED = {  # mass [kg], limits of the joints of a left leg [rad], torque limits [N m]
    "anymal_c": (52.13485, [(-0.72, 0.49), (-9.42478, 9.42478), (-9.42478, 9.42478)], [80, 80, 80]),
    "g1": (
        33.34114,
        [
            (-2.5307, 2.8798),
            (-0.5236, 2.9671),
            (-2.7576, 2.7576),
            (-0.087267, 2.8798),
            (-0.87267, 0.5236),
            (-0.2618, 0.2618),
        ],
        [88, 139, 88, 139, 35, 35],
    ),
    "h1": (
        59.338,
        [(-0.43, 0.43), (-0.43, 0.43), (-3.14, 2.53), (-0.26, 2.05), (-0.87, 0.52)],
        [200, 200, 200, 300, 40],
    ),
}
HEIGHT = {"anymal_c": 0.534, "g1": 0.777, "h1": 1.008}  # of the trunk with stiff joints [m]


def load(name):
    robot = ROBOTS.load(name)
    return robot, MujocoSim(robot.model_path, 2, SimConfig(num_threads=1))


def stand(robot, sim, stiffness=800.0, damping=4.0):
    """Put the robots at rest into the standing pose; the default gains carry them without a policy."""
    n, joints = sim.num_envs, len(sim.joint_names)
    pose = torch.tensor(robot.default_joint_pos).repeat(n, 1)
    upright = torch.tensor([[1.0, 0.0, 0.0, 0.0]]).repeat(n, 1)
    position = torch.tensor([[0.0, 0.0, robot.standing_height]]).repeat(n, 1)
    still = torch.zeros(n, 3)
    sim.reset(
        torch.ones(n, dtype=torch.bool), RobotPoseVel(position, upright, still, still, pose, torch.zeros(n, joints))
    )
    sim.set_gains(torch.full((n, joints), stiffness), torch.full((n, joints), damping))
    return pose


@pytest.mark.parametrize("name", NEW)
def test_a_robot_has_the_published_mass_joints_and_torques(name):
    robot, sim = load(name)
    mass, limits, torques = PUBLISHED[name]
    legs = len(robot.mirrored_feet)
    assert float(sim.total_mass[0]) == pytest.approx(mass, abs=2e-4)
    np.testing.assert_allclose(sim.joint_limits[: len(limits)], limits, atol=1e-5)
    assert sim.torque_limits.tolist() == pytest.approx(torques * legs)
    pose = torch.tensor(robot.default_joint_pos)
    assert (pose > sim.joint_limits[:, 0]).all() and (pose < sim.joint_limits[:, 1]).all()


@pytest.mark.parametrize("name", NEW)
def test_a_robot_stands_and_its_feet_carry_its_weight(name):
    robot, sim = load(name)
    pose = stand(robot, sim)
    for _ in range(100):
        sim.step(pose, 4)
    weight = 9.81 * sim.total_mass
    feet = sim.contact_force[:, sim.link_indices(sim.foot_names), 2].sum(dim=1)
    torch.testing.assert_close(feet, weight, rtol=0.03, atol=0)
    torch.testing.assert_close(sim.contact_force[:, :, 2].sum(dim=1), feet)  # nothing else touches the floor
    assert float(sim.root_pos[0, 2]) == pytest.approx(HEIGHT[name], abs=0.01)
    assert float(sim.root_quat[0, 0]) > 0.999 and (sim.joint_pos - pose).abs().max() < 0.05
    assert (sim.foot_pos[:, :, 2] - robot.foot_radius).abs().max() < 0.002
    assert (sim.joint_torque.abs() < 0.5 * sim.torque_limits).all()
    assert sim.foot_up.shape[1] == (len(sim.foot_names) if len(sim.foot_names) == 2 else 0)
    if len(sim.foot_names) == 2:
        assert (sim.foot_up[:, :, 2] > 0.999).all()


@pytest.mark.parametrize("name", NEW)
def test_a_mirrored_action_gives_the_mirrored_trajectory(name):
    robot = ROBOTS.load(name)
    model = mujoco.MjModel.from_xml_path(str(robot.model_path))
    random, pose = np.random.default_rng(1), np.array(robot.default_joint_pos)
    joints, signs = np.array(robot.mirrored_joints), np.array(robot.mirror_signs)
    np.testing.assert_allclose(pose[joints] * signs, pose)  # the standing pose is its own mirror image
    np.testing.assert_allclose(model.jnt_range[1:][joints] * signs[:, None], _by_sign(model.jnt_range[1:], signs))
    one, other = mujoco.MjData(model), mujoco.MjData(model)
    start, speed = pose + 0.05 * random.standard_normal(len(pose)), 0.3 * random.standard_normal(6)
    one.qpos[:], one.qvel[:6] = [0, 0, robot.standing_height, 1, 0, 0, 0, *start], speed
    other.qpos[:] = [0, 0, robot.standing_height, 1, 0, 0, 0, *start[joints] * signs]
    other.qvel[:6] = speed * [1, -1, 1, -1, 1, -1]
    for _ in range(40):
        one.ctrl[:] = pose + 0.2 * random.standard_normal(len(pose))
        other.ctrl[:] = one.ctrl[joints] * signs
        mujoco.mj_step(model, one, 4)
        mujoco.mj_step(model, other, 4)
    assert np.abs(one.qpos[7:] - start).max() > 0.1
    np.testing.assert_allclose(other.qpos[7:], one.qpos[7:][joints] * signs, atol=1e-9)
    np.testing.assert_allclose(other.qpos[:3], one.qpos[:3] * [1, -1, 1], atol=1e-9)
    np.testing.assert_allclose(other.qpos[3:7], one.qpos[3:7] * [1, -1, 1, -1], atol=1e-9)


def _by_sign(limits, signs):
    """Limits whose ends change places where the mirror image has the opposite angle."""
    return np.where(signs[:, None] < 0, limits[:, ::-1], limits)


@pytest.mark.slow
@pytest.mark.parametrize("name", NEW)
def test_both_engines_agree_on_a_robot(name):
    """40 steps with random targets, on the floor. It compiles the kernels of three models."""
    robot = ROBOTS.load(name)
    ends = []
    for engine in (MujocoSim, MujocoWarpSim):
        sim = engine(robot.model_path, 2, SimConfig(num_threads=1), "cpu")
        pose = stand(robot, sim, stiffness=100.0, damping=2.0)
        torch.manual_seed(2)
        for _ in range(10):
            sim.step(pose + 0.1 * torch.randn_like(pose), 4)
        ends.append((sim.root_pos.clone(), sim.joint_pos.clone(), sim.foot_up.clone()))
    for cpu, warp in zip(*ends):
        torch.testing.assert_close(warp, cpu, atol=1e-4, rtol=0)


def test_groups_and_patterns_name_joints_and_feet():
    g1, go2 = ROBOTS.load("g1"), ROBOTS.load("go2")
    names = [f"{side}_{joint}_joint" for side in ("left", "right") for joint in ("hip_roll", "hip_yaw", "knee")]
    assert g1.joint_indices("abduction", names) == [0, 3]
    assert g1.joint_indices(("hip_yaw", "left_.*"), names) == [0, 1, 2, 4]
    assert go2.foot_indices("left", ("FL_foot", "FR_foot", "RL_foot", "RR_foot")) == [0, 2]
    with pytest.raises(ValueError, match=r"no foot has the name 'lefty'.*Did you mean 'left'"):
        g1.foot_indices("lefty", ("left_foot", "right_foot"))


def test_the_default_pose_may_be_given_by_patterns():
    go2 = ROBOTS.load("go2")
    pose = {".*_hip_joint": 0.0, ".*_thigh_joint": 0.7, ".*_calf_joint": -1.4}
    mirror = (go2.mirrored_joints, go2.mirror_signs, go2.mirrored_feet)
    assert Robot(go2.model_path, pose, 0.3, 0.022, *mirror).default_joint_pos == (0.0, 0.7, -1.4) * 4
    with pytest.raises(ValueError, match=r"default_joint_pos of go2.xml: the name FL_calf_joint matches none"):
        Robot(go2.model_path, {".*_hip_joint": 0.0, ".*_thigh_joint": 0.7}, 0.3, 0.022, *mirror)
