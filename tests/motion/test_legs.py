"""Kinematics and inverse dynamics of the audit, against the physics engine."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rsl_rl.config.sim import SimConfig
from rsl_rl.evaluation.audit.motions import Gait, Motion, Planner, trot_offsets
from rsl_rl.motion.legs import Legs
from rsl_rl.robots import ROBOTS
from rsl_rl.sim.base import RobotPoseVel, make_sim

DT = 0.02


def build(name, count=8):
    robot = ROBOTS.load(name)
    sim = make_sim(robot.model_path, count, SimConfig(backend="mujoco", num_threads=1), "cpu")
    return robot, sim, Legs(robot, sim.joint_names, sim.foot_names)


def reset(sim, height, joint_pos):
    zero = torch.zeros(sim.num_envs, 3)
    root = zero.clone()
    root[:, 2] = height
    quat = torch.tensor([1.0, 0.0, 0.0, 0.0]).expand(sim.num_envs, 4)
    every = torch.ones(sim.num_envs, dtype=torch.bool)
    sim.reset(every, RobotPoseVel(root, quat, zero, zero, joint_pos.float(), torch.zeros_like(joint_pos).float()))


@pytest.mark.parametrize("name", ["go2", "anymal_c", "g1", "h1"])
def test_legs_place_the_feet_where_the_engine_does(name):
    _, sim, legs = build(name)
    joint_pos = (legs.default + 0.2 * torch.randn(8, len(legs.default))).clamp(*legs.limits.unbind(dim=1))
    reset(sim, 0.0, joint_pos)
    torch.testing.assert_close(legs.feet(joint_pos).position.float(), sim.foot_pos, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["go2", "g1"])
def test_inverse_kinematics_reaches_the_feet_of_a_pose(name):
    _, _, legs = build(name)
    joint_pos = (legs.default + 0.1 * torch.randn(50, len(legs.default))).clamp(*(0.9 * legs.limits).unbind(dim=1))
    feet = legs.feet(joint_pos)
    joint_pos, error = legs.solve(feet.position, feet.rotation)
    assert error.max() < 1e-3 * legs.length
    torch.testing.assert_close(legs.feet(joint_pos).position, feet.position, atol=1e-3 * legs.length, rtol=0)


def test_torques_of_standing_hold_the_robot_in_the_physics():
    robot, sim, legs = build("go2", 1)
    height = robot.foot_radius - float(legs.default_position[:, 2].mean())
    planner = Planner(legs, Gait(trot_offsets(legs.default_position), 0.55), DT, robot.foot_radius, height)
    track = planner.tracks([Motion("stand")])[Motion("stand")]
    assert float(track.force[0, :, 2].sum()) == pytest.approx(float(sim.total_mass) * 9.81, rel=1e-3)
    stiffness = torch.full((1, 12), 30.0)
    sim.set_gains(stiffness, torch.full((1, 12), 0.75))
    reset(sim, height, track.joint_pos)
    for _ in range(50):  # one second
        sim.step((track.joint_pos + track.torque / stiffness).float(), 4)
    torch.testing.assert_close(sim.joint_pos, track.joint_pos.float(), atol=0.02, rtol=0)
    torch.testing.assert_close(sim.joint_torque, track.torque.float(), atol=1.0, rtol=0)
    assert float(sim.root_pos[0, :2].norm()) < 0.01


@settings(max_examples=15)
@given(
    vx=st.floats(-0.5, 0.5), vy=st.floats(-0.3, 0.3), rate=st.floats(-0.8, 0.8), period=st.sampled_from([0.4, 0.5, 0.6])
)
def test_feet_that_carry_the_robot_do_not_slip(vx, vy, rate, period):
    robot, _, legs = build("go2", 1)
    planner = Planner(legs, Gait(trot_offsets(legs.default_position), 0.55), DT, robot.foot_radius, 0.3)
    motion = Motion("walk", (vx, vy, rate), period, 0.05)
    track = planner.tracks([motion])[motion]
    carries = track.force[:, :, 2] > 0
    inside = carries & carries.roll(1, 0) & carries.roll(-1, 0)  # not in the first and the last step of a stance
    speed = track.foot_vel.norm(dim=2)
    assert float(speed[inside].max()) < 1e-3 + 0.01 * (abs(vx) + abs(vy) + abs(rate))
    assert float(track.foot_pos[:, :, 2].max()) == pytest.approx(robot.foot_radius + 0.05, rel=0.05)


def test_trot_offsets_pair_diagonal_feet_and_alternate_two():
    _, _, legs = build("go2", 1)
    assert trot_offsets(legs.default_position) == (0.0, 0.5, 0.5, 0.0)
    _, _, legs = build("g1", 1)
    assert trot_offsets(legs.default_position) == (0.0, 0.5)


def test_a_step_that_the_legs_do_not_reach_is_not_possible():
    robot, _, legs = build("go2", 1)
    planner = Planner(legs, Gait(trot_offsets(legs.default_position), 0.55), DT, robot.foot_radius, 0.3)
    near, far = Motion("walk", (0.3, 0.0, 0.0), 0.5, 0.05), Motion("walk", (3.0, 0.0, 0.0), 0.8, 0.05)
    tracks = planner.tracks([near, far])
    assert tracks[near].possible and not tracks[far].possible
