"""Gravity torques of limbs against MuJoCo's inverse dynamics."""

import mujoco
import numpy as np
import pytest

from rsl_rl.hardware.limbs import hanging_pose, loads, read_limbs, telling_pose
from rsl_rl.robots import ROBOTS


@pytest.mark.parametrize("robot", ["go2", "g1", "h1"])
def test_loads_are_those_of_mujoco_in_any_pose_and_orientation(robot):
    path = ROBOTS.load(robot).model_path
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    names = [model.joint(int(i)).name for i in model.actuator_trnid[:, 0]]
    limbs, rng = read_limbs(path, names[::-1]), np.random.default_rng(0)
    angles, quats = rng.uniform(-0.5, 0.5, (4, len(names))), rng.normal(size=(4, 4))
    quats /= np.linalg.norm(quats, axis=1, keepdims=True)
    expected, gravity = np.empty_like(angles), np.empty((4, 3))
    for t in range(4):
        data.qpos[3:7] = quats[t]
        for name, angle in zip(limbs.names, angles[t]):
            data.joint(name).qpos[0] = angle
        mujoco.mj_forward(model, data)
        expected[t] = [data.joint(name).qfrc_bias[0] for name in limbs.names]
        gravity[t] = -data.xmat[model.jnt_bodyid[0]].reshape(3, 3)[2]
    held = loads(limbs, angles, gravity)
    np.testing.assert_allclose(held.torques, expected, atol=1e-9)
    np.testing.assert_allclose(np.einsum("tjk,tk->tj", held.per_gravity, gravity), expected, atol=1e-9)
    step = 1e-6
    for j in range(len(names)):
        moved = angles.copy()
        moved[:, j] += step
        slope = (loads(limbs, moved, gravity).torques - held.torques) / step
        np.testing.assert_allclose(held.stiffness[:, :, j], slope, atol=1e-3)


def test_pose_of_a_g1_tells_the_zero_of_the_hip_yaw_within_the_torques():
    names = [f"left_{name}_joint" for name in ("hip_pitch", "hip_roll", "hip_yaw", "knee", "ankle_pitch", "ankle_roll")]
    limb, down = read_limbs(ROBOTS.load("g1").model_path, names), np.array([[0.0, 0.0, -1.0]])
    largest = np.array([6.0, 9.0, 6.0, 9.0, 2.0, 2.0])
    angles, torques = telling_pose(limb, [2], largest, 0.5)
    assert (np.abs(torques) <= largest).all() and not angles[[1, 2, 5]].any()
    assert (limb.ranges[:, 0] <= angles).all() and (angles <= limb.ranges[:, 1]).all()
    held, hanging = (loads(limb, pose[None], down) for pose in (angles, hanging_pose(limb)))
    np.testing.assert_allclose(held.torques[0], torques)
    assert abs(held.stiffness[0, 2, 2]) > 4 * abs(hanging.stiffness[0, 2, 2])


def test_limbs_have_names_of_their_places():
    go2 = ROBOTS.load("go2")
    limbs = read_limbs(go2.model_path, ["FL_calf_joint", "RR_calf_joint", "FR_thigh_joint"])
    assert [limbs.place_of(end) for end in limbs.ends()] == ["front left", "front right", "rear right"]


def test_joint_that_the_model_does_not_have_is_named():
    with pytest.raises(ValueError, match="has no joint wheel"):
        read_limbs(ROBOTS.load("go2").model_path, ["wheel"])
