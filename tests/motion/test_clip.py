"""Clips in files, and the lookup of several at once against a loop over their frames."""

import io
import math
import warnings
import zipfile

import numpy as np
import pytest
import torch

from rsl_rl.motion import Clip, ClipSet, load_clip, save_clip
from rsl_rl.motion.clip import read_arrays
from rsl_rl.motion.rotations import multiply, rotate
from rsl_rl.utils.tensors import from_yaw


def walk_on_a_circle(fps=25.0, speed=0.8, rate=0.6, seconds=1.0, loop=True, tilt=0.2):
    """Two bodies that move on a circle, the second 0.3 m ahead of the first; joints swing once in a round."""
    count = round(seconds * fps) + 1
    time = torch.arange(count) / fps
    yaw = 0.4 + rate * time
    x, y = speed / rate * (yaw.sin() - math.sin(0.4)), speed / rate * (math.cos(0.4) - yaw.cos())
    root = torch.stack((1.0 + x, 2.0 + y, 0.3 + 0 * x), dim=1)
    half = torch.tensor(tilt / 2)
    lean = torch.stack((half.cos(), half.sin(), 0 * half, 0 * half))
    quat = multiply(from_yaw(yaw), lean.expand(count, 4))
    arm = torch.tensor([0.3, 0.0, 0.0])
    swing = 2 * math.pi * time / seconds
    vel = speed * torch.stack((yaw.cos(), yaw.sin(), 0 * yaw), dim=1)
    spin = torch.tensor([0.0, 0.0, rate]).expand(count, 3)
    pos = torch.stack((root, root + rotate(quat, arm)), dim=1)
    return Clip(
        name="circle",
        fps=fps,
        joint_names=("a", "b"),
        link_names=("trunk", "head"),
        joint_pos=torch.stack((swing.sin(), swing.cos()), dim=1),
        joint_vel=torch.stack((swing.cos(), -swing.sin()), dim=1) * 2 * math.pi / seconds,
        link_pos=pos,
        link_quat=quat.unsqueeze(1).repeat(1, 2, 1),
        link_vel=torch.stack((vel, vel + torch.linalg.cross(spin, rotate(quat, arm))), dim=1),
        link_ang_vel=spin.unsqueeze(1).repeat(1, 2, 1),
        loop=loop,
    )


def same(frame, other, tolerance=1e-5):
    for name, a, b in zip(frame._fields, frame, other):
        torch.testing.assert_close(a, b, atol=tolerance, rtol=0, msg=lambda text, name=name: f"{name}: {text}")


def test_file_holds_the_clip(tmp_path):
    clip = walk_on_a_circle()
    save_clip(clip, tmp_path / "circle.npz")
    read = load_clip(tmp_path / "circle.npz")
    for name in ("name", "fps", "joint_names", "link_names", "loop"):
        assert getattr(read, name) == getattr(clip, name)
    for name in ("joint_pos", "joint_vel", "link_pos", "link_quat", "link_vel", "link_ang_vel"):
        assert torch.equal(getattr(read, name), getattr(clip, name))


@pytest.mark.parametrize("damage", ["cut", "text", "object", "other", "missing", "shape", "format", "bomb"])
def test_damaged_files_are_one_line(tmp_path, damage, monkeypatch):
    monkeypatch.setattr("rsl_rl.motion.clip.LARGEST", 1_000_000)
    path = tmp_path / "circle.npz"
    save_clip(walk_on_a_circle(), path)
    with np.load(path) as file:
        arrays = dict(file)
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-200])
    elif damage == "text":
        path.write_text("hello")
    elif damage == "bomb":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("a.npy", "w") as file:
            file.write(bytes(10**7))
    else:
        arrays.update(
            {
                "object": {"name": np.array([print], dtype=object)},
                "other": {"format": np.array("something")},
                "shape": {"joint_pos": np.zeros((3, 2))},
                "format": {"format": np.array("rsl_rl clip 99")},
            }.get(damage, {})
        )
        if damage == "missing":
            arrays.pop("link_vel")
        np.savez(path, **arrays)
    with pytest.raises(ValueError) as failure:
        load_clip(path)
    assert "\n" not in str(failure.value) and "circle" in str(failure.value)


def test_lookup_at_frames_gives_the_frames():
    clips = [walk_on_a_circle(), walk_on_a_circle(fps=50.0, rate=-0.9, seconds=2.0, loop=False)]
    lookup = ClipSet(clips, "cpu")
    for i, clip in enumerate(clips):
        time = torch.arange(clip.num_frames - 1) / clip.fps
        frame = lookup.at(torch.full((len(time),), i), time)
        own = [x[:-1] for x in (clip.joint_pos, clip.joint_vel, clip.link_pos, clip.link_quat, clip.link_vel)]
        same(frame, (*own, clip.link_ang_vel[:-1]))


def test_lookup_between_frames_and_in_later_rounds_is_the_motion_itself():
    """The circle goes on; the tolerance is that of linear interpolation at 100 frames a second."""
    lookup = ClipSet([walk_on_a_circle(fps=100.0)], "cpu")
    time = torch.rand(200) * 7.0
    long = walk_on_a_circle(fps=1000.0, seconds=7.0, loop=False)
    rows = (time * 1000).round().long()
    frame = lookup.at(torch.zeros(200, dtype=torch.long), rows / 1000.0)
    swing = 2 * math.pi * rows / 1000
    expected = (
        torch.stack((swing.sin(), swing.cos()), dim=1),
        torch.stack((swing.cos(), -swing.sin()), dim=1) * 2 * math.pi,
        *(x[rows] for x in (long.link_pos, long.link_quat, long.link_vel, long.link_ang_vel)),
    )
    sign = (frame.link_quat * expected[3]).sum(dim=-1, keepdim=True).sign()
    same(frame._replace(link_quat=frame.link_quat * sign, joint_vel=expected[1]), expected, 1e-3)
    torch.testing.assert_close(frame.joint_vel, expected[1], atol=1e-2, rtol=0)


def test_straight_loop_moves_on():
    clip = walk_on_a_circle(rate=1e-9, tilt=0.0)
    frame = ClipSet([clip], "cpu").at(torch.zeros(3, dtype=torch.long), torch.tensor([0.0, 2.0, 5.0]))
    start = clip.root_pos[0]
    step = clip.root_pos[-1] - start
    torch.testing.assert_close(frame.link_pos[:, 0], torch.stack([start + k * step for k in (0, 2, 5)]))


def test_clips_without_loop_end_where_they_end():
    clip = walk_on_a_circle(loop=False)
    frame = ClipSet([clip], "cpu").at(torch.zeros(2, dtype=torch.long), torch.tensor([-1.0, 99.0]))
    torch.testing.assert_close(frame.link_pos, clip.link_pos[[0, -1]])
    for velocity in (frame.joint_vel, frame.link_vel, frame.link_ang_vel):
        assert not velocity.any()
    assert ClipSet([clip], "cpu").at(torch.zeros(1, dtype=torch.long), torch.zeros(1)).link_vel.any()


@pytest.mark.parametrize("damage", ["not an array", "too many numbers"])
def test_read_arrays_of_a_misleading_file_is_one_line(damage, tmp_path):
    path, header = tmp_path / "clip.npz", io.BytesIO()
    if damage == "too many numbers":
        np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**13,)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("joint_pos.npy", header.getvalue() or b"text")
    with pytest.raises(ValueError, match=r"clip\.npz") as failure:
        read_arrays(path)
    assert "\n" not in str(failure.value)


def test_clips_of_different_robots_are_an_error():
    clip = walk_on_a_circle()
    other = Clip(**{**vars(clip), "joint_names": ("a", "c")})
    with pytest.raises(ValueError, match="different robots"):
        ClipSet([clip, other], "cpu")
    with pytest.raises(ValueError, match="no clip"):
        ClipSet([], "cpu")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_lookup_does_not_synchronise():
    lookup = ClipSet([walk_on_a_circle()], "cuda")
    index, time = torch.zeros(64, dtype=torch.long, device="cuda"), torch.rand(64, device="cuda")
    lookup.at(index, time)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.cuda.set_sync_debug_mode("error")
        try:
            lookup.at(index, time)
        finally:
            torch.cuda.set_sync_debug_mode("default")
