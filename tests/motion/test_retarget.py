"""Clips on another robot: the same gait, feet that stand, limits; and robots of another kind."""

import pytest
import torch

from rsl_rl.motion.checks import check, feet_of, footfalls
from rsl_rl.motion.generate import generate
from rsl_rl.motion.kinematics import Kinematics
from rsl_rl.motion.legs import legs_of
from rsl_rl.motion.retarget import retarget
from rsl_rl.robots import ROBOTS

SOLO12 = "zoo.robots.solo12.flat:ROBOT"


@pytest.mark.parametrize(("source", "target"), [("go2", "anymal_c"), ("anymal_c", SOLO12), ("g1", "h1")])
def test_clip_on_another_robot_has_the_gait_and_no_faults(source, target):
    a, b = ROBOTS.load(source), ROBOTS.load(target)
    request = ("walk", 0.3) if source == "g1" else ("trot", 0.5, 0.0, 0.4)
    clip = generate(a, *request)
    made, notes = retarget(clip, a, b)
    legs = legs_of(b)
    assert notes == () and made.loop and made.num_frames == clip.num_frames
    assert check(made, Kinematics(b), legs) == []
    feet = feet_of(made, legs)
    assert float((feet.speed * feet.standing).max()) < 0.03
    torch.testing.assert_close(made.joint_pos[0], made.joint_pos[-1], atol=0.02, rtol=0)
    ours, theirs = footfalls(made, legs), footfalls(clip, legs_of(a))
    for own, other in zip(ours.values(), theirs.values()):
        assert own[0] == pytest.approx(other[0], abs=0.1)


def test_motion_survives_the_way_to_another_robot_and_back():
    a, b = ROBOTS.load("go2"), ROBOTS.load("anymal_c")
    clip = generate(a, "trot", 0.5)
    back = retarget(retarget(clip, a, b).clip, b, a).clip
    torch.testing.assert_close(back.joint_pos, clip.joint_pos, atol=0.05, rtol=0)


def test_robots_of_another_kind_are_an_error():
    a, b = ROBOTS.load("go2"), ROBOTS.load("g1")
    with pytest.raises(ValueError, match="robots of one kind"):
        retarget(generate(a, "stand"), a, b)
