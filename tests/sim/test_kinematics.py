"""State of links by forward kinematics, against MuJoCo's own."""

import mujoco
import numpy as np
import pytest
import torch

from rsl_rl.config.sim import SimConfig
from rsl_rl.robots import ROBOTS
from rsl_rl.sim.base import RobotPoseVel
from rsl_rl.sim.mujoco_cpu import MujocoSim

BENT = """
<mujoco>
  <worldbody>
    <geom name="floor" type="plane" size="0 0 1"/>
    <body name="trunk" pos="0 0 1"><freejoint/><geom size="0.1"/>
      <body name="arm" pos="0.1 0.2 0" quat="0.9 0.1 0.3 -0.2">
        <joint name="a" axis="0.6 0 0.8" pos="0.05 0 -0.1" range="-3 3"/>
        <joint name="b" axis="0 1 0" pos="0 0.1 0" ref="0.4" range="-3 3"/><geom size="0.05"/>
        <body name="hand" pos="0 0 0.3" euler="20 30 40"><joint name="c" axis="0 0 1" range="-3 3"/><geom size="0.05"/>
          <body name="tip" pos="0.01 0 0.1"><geom size="0.01"/></body>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <position joint="a" forcerange="-1 1"/><position joint="b" forcerange="-1 1"/>
    <position joint="c" forcerange="-1 1"/>
  </actuator>
</mujoco>
"""
"""Turned bodies, hinges beside the body's origin, two hinges of one body, and an angle that is not zero at rest."""


@pytest.fixture(params=["go2", "g1", "bent"])
def path(request, tmp_path):
    if request.param != "bent":
        return ROBOTS.load(request.param).model_path
    (tmp_path / "bent.xml").write_text(BENT)
    return tmp_path / "bent.xml"


def test_links_are_where_mujoco_has_them_and_as_fast(path):
    n, sim = 3, MujocoSim(path, 3, SimConfig(num_threads=1))
    model = mujoco.MjModel.from_xml_path(str(path))
    trunk = int(model.jnt_bodyid[0])
    names = [model.body(i).name for i in range(1, model.nbody) if model.body_rootid[i] == trunk]
    quat = torch.nn.functional.normalize(torch.randn(n, 4), dim=1)
    joints = len(sim.joint_names)
    state = RobotPoseVel(
        torch.randn(n, 3), quat, torch.randn(n, 3), torch.randn(n, 3), torch.randn(n, joints), torch.randn(n, joints)
    )
    pos, vel, turn, ang_vel = sim.link_kinematics(names)(state)
    assert pos.shape == vel.shape == (n, len(names), 3) and turn.shape == (n, len(names), 3, 3)
    for robot in range(n):
        data = mujoco.MjData(model)
        data.qpos[:] = torch.cat([part[robot] for part in (state.root_pos, state.root_quat, state.joint_pos)])
        data.qvel[:] = torch.cat([part[robot] for part in (state.root_lin_vel, state.root_ang_vel, state.joint_vel)])
        mujoco.mj_forward(model, data)
        for i, name in enumerate(names):
            speed = np.zeros(6)
            mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_XBODY, model.body(name).id, speed, 0)
            np.testing.assert_allclose(pos[robot, i], data.body(name).xpos, atol=5e-6)
            np.testing.assert_allclose(vel[robot, i], speed[3:], atol=3e-5)
            np.testing.assert_allclose(turn[robot, i].flatten(), data.body(name).xmat, atol=5e-6)
            np.testing.assert_allclose(ang_vel[robot, i], speed[:3], atol=3e-5)


def test_feet_are_where_their_sensors_are_and_turned_as_those_say(path):
    sim = MujocoSim(path, 2, SimConfig(num_threads=1))
    if not sim.foot_names:
        return
    joints = len(sim.joint_names)
    quat = torch.nn.functional.normalize(torch.randn(2, 4), dim=1)
    angles, speeds = torch.randn(2, joints), torch.randn(2, joints)
    state = RobotPoseVel(torch.randn(2, 3) + 5, quat, torch.randn(2, 3), torch.randn(2, 3), angles, speeds)
    sim.reset(torch.ones(2, dtype=torch.bool), state)
    feet = sim.link_kinematics(sim.foot_names)(state)
    torch.testing.assert_close(feet.pos, sim.foot_pos, atol=1e-5, rtol=0)
    torch.testing.assert_close(feet.vel, sim.foot_vel, atol=1e-4, rtol=0)
    if sim.foot_up.shape[1]:
        torch.testing.assert_close(feet.turn[..., 2], sim.foot_up, atol=1e-5, rtol=0)


def test_unknown_link_is_an_error_with_a_suggestion(path):
    sim = MujocoSim(path, 1, SimConfig(num_threads=1))
    with pytest.raises(ValueError, match=r"unknown link 'trunc'; this model has trunk, .*Did you mean 'trunk'\?"):
        sim.link_kinematics(["trunc"])
