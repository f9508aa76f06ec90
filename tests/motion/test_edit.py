"""Edited clips: resampled, cut, mirrored, joined, repeated, and made to loop."""

import math
import re

import pytest
import torch

from rsl_rl.motion import ClipSet
from rsl_rl.motion.checks import check, feet_of
from rsl_rl.motion.edit import cut, join, make_loop, mirror, on_model, repeated, resample
from rsl_rl.motion.generate import generate
from rsl_rl.motion.kinematics import Kinematics, build_clip
from rsl_rl.motion.legs import legs_of
from rsl_rl.motion.rotations import turn_between
from rsl_rl.robots import ROBOTS

ROBOT = ROBOTS.load("go2")
KINEMATICS = Kinematics(ROBOT)


@pytest.fixture(scope="module")
def trot():
    return generate(ROBOT, "trot", 0.5, 0.1, 0.6)


def test_resampled_clip_is_the_motion_at_other_times(trot):
    fine = resample(trot, KINEMATICS, 200.0)
    assert fine.fps == 200.0 and fine.loop and fine.length == pytest.approx(trot.length, abs=0.0025)
    time = torch.linspace(0, 0.99, 50)
    zero = torch.zeros(50, dtype=torch.long)
    a = ClipSet([fine], "cpu").at(zero, time * fine.length)
    b = ClipSet([trot], "cpu").at(zero, time * trot.length)
    torch.testing.assert_close(a.link_pos, b.link_pos, atol=2e-3, rtol=0)
    back = resample(fine, KINEMATICS, 50.0)
    torch.testing.assert_close(back.joint_pos, trot.joint_pos, atol=1e-4, rtol=0)


def test_mirror_image_is_that_of_the_bodies_and_mirrors_back(trot):
    image = mirror(trot, KINEMATICS, ROBOT)
    other = {"L": "R", "R": "L"}
    names = KINEMATICS.link_names
    pairs = [names.index(name if name == "trunk" else name[0] + other[name[1]] + name[2:]) for name in names]
    flip = torch.tensor([1.0, -1.0, 1.0])
    torch.testing.assert_close(image.link_pos, trot.link_pos[:, pairs] * flip, atol=1e-5, rtol=0)
    torch.testing.assert_close(image.link_vel, trot.link_vel[:, pairs] * flip, atol=1e-4, rtol=0)
    torch.testing.assert_close(mirror(image, KINEMATICS, ROBOT).joint_pos, trot.joint_pos)


def test_cut_and_repeated_clips_are_parts_of_the_motion(trot):
    long = repeated(trot, 3.0)
    assert long.num_frames == 151 and not long.loop
    torch.testing.assert_close(long.joint_pos[: trot.num_frames], trot.joint_pos, atol=1e-5, rtol=0)
    part = cut(long, KINEMATICS, 1.0, 2.0)
    torch.testing.assert_close(part.joint_pos, long.joint_pos[50:101])
    for wrong in ((2.0, 1.0), (-1.0, 1.0), (1.0, 9.0)):
        with pytest.raises(ValueError, match="not a part"):
            cut(long, KINEMATICS, *wrong)
    with pytest.raises(ValueError, match="does not loop, so it cannot be repeated"):
        repeated(long, 1.0)


def test_loop_is_found_in_a_longer_motion_with_its_period_and_closes(trot):
    exact = cut(repeated(trot, 4.0), KINEMATICS, 0.3, 3.1)
    drift = 0.02 * torch.arange(exact.num_frames).unsqueeze(1) / exact.fps  # in all joints, and as a rise of the trunk
    rise = 0.5 * drift * torch.tensor([0.0, 0.0, 1.0])
    long = build_clip(KINEMATICS, exact.root_pos + rise, exact.root_quat, exact.joint_pos + drift, 50.0, "drifting")
    loop = make_loop(long, KINEMATICS)
    assert loop.loop and loop.num_frames == trot.num_frames
    torch.testing.assert_close(loop.joint_pos[0], loop.joint_pos[-1])
    torch.testing.assert_close(loop.root_pos[0, 2], loop.root_pos[-1, 2])
    turned = float(turn_between(loop.root_quat[0], loop.root_quat[-1]))
    assert turned == pytest.approx(0.6 * loop.length, abs=1e-3)
    frame = ClipSet([loop], "cpu").at(torch.zeros(400, dtype=torch.long), torch.arange(400) * 0.01)
    assert frame.link_pos.diff(dim=0).norm(dim=2).max() * 100 < 4.0  # no jump at the seam [m/s]
    with pytest.raises(ValueError, match="less than the shortest loop"):
        make_loop(cut(long, KINEMATICS, 0.0, 0.2), KINEMATICS)


def test_clip_on_a_model_with_more_joints_has_its_bodies(trot, tmp_path):
    """A Go2 with a tail, its legs in another order of names, and no actuators."""
    text = ROBOT.model_path.read_text()
    tail = '<body name="tail" pos="-0.3 0 0"><joint name="tail" axis="0 0 1"/><geom size="0.02" mass="0.1"/></body>'
    text = text.replace('<body name="FL_hip"', tail + '<body name="FL_hip"', 1)
    text = re.sub(r"<actuator>.*</actuator>", "", text, flags=re.S)
    (tmp_path / "tail.xml").write_text(text)
    other = Kinematics(tmp_path / "tail.xml")
    clip = on_model(trot, other)
    assert clip.joint_names == ("tail", *trot.joint_names) and clip.link_names[1] == "tail"
    torch.testing.assert_close(clip.link_pos[:, [0, *range(2, 14)]], trot.link_pos)
    assert not clip.joint_pos[:, 0].any() and clip.loop
    with pytest.raises(ValueError, match="does not have the joints left_ankle_pitch"):
        on_model(generate(ROBOTS.load("g1"), "stand"), other)


def test_joined_clips_go_on_where_the_one_before_ends_and_keep_the_feet_on_the_floor(trot):
    pace = generate(ROBOT, "pace", 0.5)
    joined = join([repeated(trot, 1.3), pace, trot], KINEMATICS)
    assert joined.num_frames == 66 + pace.num_frames - 1 + trot.num_frames - 1
    assert joined.root_pos.diff(dim=0).norm(dim=1).max() * joined.fps < 1.0
    assert joined.joint_vel.abs().max() < 20.0
    legs = legs_of(ROBOT)
    assert {finding.kind for finding in check(joined, KINEMATICS, legs)} <= {"skating", "floor"}
    assert float(feet_of(joined, legs).position[..., 2].min()) > ROBOT.foot_radius - 0.02
    to_sit = join([repeated(trot, 0.1), generate(ROBOT, "sit")], KINEMATICS)  # from the middle of a step
    steps = to_sit.joint_pos.diff(dim=0).abs().amax(dim=1)
    assert (repeated(trot, 0.1).joint_pos[-1] - generate(ROBOT, "sit").joint_pos[0]).abs().max() > 0.3
    assert steps[4:].max() < 0.15 and to_sit.num_frames == 6 + 125
    # the same gait again, at the phase where it ended, is the gait without a break
    same = join([repeated(trot, 0.2), trot], KINEMATICS)
    torch.testing.assert_close(same.joint_pos, repeated(trot, 0.72).joint_pos, atol=2e-3, rtol=0)
    assert math.isclose(same.length, 0.2 + trot.length, abs_tol=1e-6)
    with pytest.raises(ValueError, match="resample"):
        join([trot, resample(trot, KINEMATICS, 30.0)], KINEMATICS)
