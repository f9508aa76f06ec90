"""Forward kinematics and rates of clips, against MuJoCo."""

import math

import mujoco
import numpy as np
import pytest
import torch

from rsl_rl.motion.kinematics import Kinematics, build_clip
from rsl_rl.motion.rotations import conjugate, from_vector, multiply, rotate
from rsl_rl.robots import ROBOTS
from rsl_rl.utils.tensors import from_yaw


def random_motion(kinematics, frames=40, fps=200.0, seed=0):
    """Smooth motions of trunk and joints with their derivatives, from sums of sines."""
    generator = torch.Generator().manual_seed(seed)
    joints = len(kinematics.joint_names)
    time = torch.arange(frames, dtype=torch.float64).unsqueeze(1) / fps
    phase = torch.rand(1, joints + 6, generator=generator, dtype=torch.float64) * 6
    size = torch.tensor([0.3] * joints + [0.2] * 6, dtype=torch.float64)
    values, rates = size * (5 * time + phase).sin(), 5 * size * (5 * time + phase).cos()
    return values[:, -6:-3], from_vector(values[:, -3:]), values[:, :joints], rates[:, :joints]


@pytest.mark.parametrize("name", ["go2", "anymal_c", "g1", "h1"])
def test_bodies_are_where_mujoco_has_them_and_move_as_it_says(name):
    kinematics = Kinematics(ROBOTS.load(name))
    pos, quat, joint_pos, joint_vel = random_motion(kinematics)
    clip = build_clip(kinematics, pos, quat, joint_pos, 200.0, "any")
    model = kinematics.model
    data = mujoco.MjData(model)
    assert clip.link_names[0] == model.body(int(model.jnt_bodyid[0])).name
    assert clip.joint_names == tuple(model.joint(model.actuator_trnid[i, 0]).name for i in range(model.nu))
    torch.testing.assert_close(clip.joint_vel, joint_vel.float(), atol=2e-3, rtol=0)  # of order dt^2
    for i in range(0, clip.num_frames, 7):
        data.qpos[:] = np.concatenate((pos[i], quat[i], joint_pos[i]))
        twist = torch.cat((clip.link_vel[i, 0], rotated_back(clip.root_quat[i], clip.link_ang_vel[i, 0])))
        data.qvel[:] = np.concatenate((twist.double(), joint_vel[i]))
        mujoco.mj_forward(model, data)
        for j, body in enumerate(clip.link_names):
            np.testing.assert_allclose(clip.link_pos[i, j], data.body(body).xpos, atol=1e-5)
            assert abs(np.dot(clip.link_quat[i, j].numpy(), data.body(body).xquat)) == pytest.approx(1, abs=1e-6)
            speed = np.zeros(6)
            mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_XBODY, data.body(body).id, speed, 0)
            np.testing.assert_allclose(clip.link_ang_vel[i, j], speed[:3], atol=1e-2)
            np.testing.assert_allclose(clip.link_vel[i, j], speed[3:], atol=1e-2)


def rotated_back(quat, vector):
    return rotate(conjugate(quat), vector)


def test_loop_has_the_rates_of_a_motion_that_goes_on():
    """A turn on a circle with swinging joints: the first and last frames have the rates of those in the middle."""
    kinematics = Kinematics(ROBOTS.load("go2"))
    fps, seconds, rate = 50.0, 0.8, 0.9
    time = torch.arange(round(3 * seconds * fps) + 1, dtype=torch.float64) / fps
    yaw = rate * time
    pos = torch.stack((yaw.sin(), 1 - yaw.cos(), 0.3 + 0 * yaw), dim=1)
    lean = from_vector(torch.tensor([0.1, 0.2, 0.0], dtype=torch.float64)).expand(len(time), 4)
    quat = multiply(from_yaw(yaw), lean)
    joint_pos = 0.3 * (2 * math.pi * time / seconds).sin().unsqueeze(1) * torch.ones(12, dtype=torch.float64)
    whole = build_clip(kinematics, pos, quat, joint_pos, fps, "three rounds")
    frames = round(seconds * fps) + 1
    rows = slice(frames - 1, 2 * frames - 1)
    loop = build_clip(kinematics, pos[rows], quat[rows], joint_pos[rows], fps, "one", loop=True)
    for name in ("joint_vel", "link_vel", "link_ang_vel"):
        torch.testing.assert_close(getattr(loop, name), getattr(whole, name)[rows], atol=1e-4, rtol=0)


def test_wrong_number_of_joints_and_models_without_robot_are_errors(tmp_path):
    kinematics = Kinematics(ROBOTS.load("go2"))
    with pytest.raises(ValueError, match="11 joints, and the robot 12"):
        build_clip(kinematics, torch.zeros(2, 3), torch.eye(4)[:2], torch.zeros(2, 11), 50.0, "short")
    path = tmp_path / "ball.xml"
    path.write_text("<mujoco><worldbody><body><freejoint/><geom size='.1'/></body></worldbody></mujoco>")
    with pytest.raises(ValueError, match="no free joint"):
        Kinematics(path)
