"""Faults that are put into a clip are reported with their frames, and mended."""

from dataclasses import replace

import pytest
import torch

from rsl_rl.motion.checks import check, feet_of, mend
from rsl_rl.motion.generate import generate
from rsl_rl.motion.kinematics import Kinematics, build_clip
from rsl_rl.motion.legs import legs_of
from rsl_rl.robots import ROBOTS

ROBOT = ROBOTS.load("go2")


@pytest.fixture(scope="module")
def parts():
    return Kinematics(ROBOT), legs_of(ROBOT), generate(ROBOT, "trot", 0.5, seconds=2.0)


def changed(parts, kind):
    """Return the clip with one fault, and the frames that have it."""
    kinematics, _, clip = parts
    pos, quat, joints = clip.root_pos.clone(), clip.root_quat.clone(), clip.joint_pos.clone()
    frames = (40, 44)
    rows = slice(40, 45)
    if kind == "nan":
        joints[rows, 3] = torch.nan
    elif kind == "jump":
        joints[rows, 4] += 1.5
        frames = (39, 44)  # the rate to the next frame
    elif kind == "limits":
        joints[rows, 2] = float(kinematics.limits[2, 0]) - 0.2
    elif kind == "floor":
        pos[:, 2] -= 0.03
        frames = (0, clip.num_frames - 1)
    elif kind == "floating":
        pos[:, 2] += 0.1
        frames = (0, clip.num_frames - 1)
    elif kind == "skating":
        pos[:, 0] += 0.3 * torch.arange(clip.num_frames) / clip.fps
        frames = None
    return build_clip(kinematics, pos, quat, joints, clip.fps, clip.name), frames


@pytest.mark.parametrize("kind", ["nan", "jump", "limits", "floor", "floating", "skating"])
def test_fault_is_reported_with_its_frames_and_mended(parts, kind):
    kinematics, legs, clip = parts
    bad, frames = changed(parts, kind)
    found = {finding.kind: finding for finding in check(bad, kinematics, legs)}
    assert kind in found
    if frames is not None:
        covered = {i for a, b in found[kind].frames for i in range(a, b + 1)}
        wanted = {frames[0], frames[1]} if kind == "jump" else set(range(frames[0], frames[1] + 1))
        assert covered == wanted
    kinds = [kind] if kind != "limits" else ["limits", "jump"]
    good = mend(bad, kinematics, legs, kinds)
    assert kind not in {finding.kind for finding in check(good, kinematics, legs)}
    if kind in ("nan", "jump"):  # the motion goes on in between
        assert (good.joint_pos - clip.joint_pos).abs().max() < 0.35
        rest = torch.ones(clip.num_frames, dtype=torch.bool)
        rest[38:47] = False
        torch.testing.assert_close(good.joint_pos[rest], clip.joint_pos[rest])
    if kind in ("floor", "floating"):
        torch.testing.assert_close(good.root_pos, clip.root_pos, atol=1e-3, rtol=0)
    if kind == "skating":
        feet = feet_of(good, legs)
        assert float((feet.speed * feet.standing).max()) < 0.1


@pytest.mark.parametrize("kinds", [["skating"], ["loop"], ["floor"], ["nan"]])
def test_mended_loop_is_a_loop(parts, kinds):
    """A trot whose steps are too long for its feet, and in which the first frame has no numbers or another pose."""
    kinematics, legs, _ = parts
    clip = generate(ROBOT, "trot", 0.5)
    pos, quat, joints = clip.root_pos.clone(), clip.root_quat.clone(), clip.joint_pos.clone()
    if kinds == ["skating"]:
        pos[:, 0] *= 1.5
    else:
        joints[0] = torch.nan if kinds == ["nan"] else joints[0] + 0.1
    bad = build_clip(kinematics, pos, quat, joints, clip.fps, clip.name, loop=True)
    assert kinds == ["floor"] or kinds[0] in {finding.kind for finding in check(bad, kinematics, legs)}
    good = mend(bad, kinematics, legs, kinds)
    assert good.loop and not {"loop", *kinds} & {finding.kind for finding in check(good, kinematics, legs)}
    torch.testing.assert_close(good.joint_pos[0], good.joint_pos[-1])


def test_frames_without_numbers_are_not_mended_without_being_named(parts):
    kinematics, legs, _ = parts
    with pytest.raises(ValueError, match="frames 40 to 44: numbers are not finite; mend nan too"):
        mend(changed(parts, "nan")[0], kinematics, legs, ["floor"])


@pytest.mark.parametrize("name", ["joint_vel", "link_quat"])
def test_rates_without_numbers_and_quaternions_of_length_0_are_reported(parts, name):
    kinematics, legs, clip = parts
    values = getattr(clip, name).clone()
    values[7] = torch.nan if name == "joint_vel" else 0.0
    (found,) = check(replace(clip, **{name: values}), kinematics, legs)
    assert found.kind == "nan" and found.frames == ((7, 7),)


def test_mending_names_what_it_cannot_and_needs_good_frames(parts):
    kinematics, legs, clip = parts
    with pytest.raises(ValueError, match="known: nan, jump"):
        mend(clip, kinematics, legs, ["wobble"])
    joints = torch.full_like(clip.joint_pos, torch.nan)
    bad = build_clip(kinematics, clip.root_pos, clip.root_quat, joints, clip.fps, "bad")
    with pytest.raises(ValueError, match="0 frames without faults"):
        mend(bad, kinematics, legs, ["nan"])
