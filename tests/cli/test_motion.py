"""The command motion: from a generated clip to a film, through the formats of others, and what it refuses."""

import base64
import gzip
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from rsl_rl.cli.main import main
from rsl_rl.motion import load_clip, save_clip
from rsl_rl.motion.generate import generate
from rsl_rl.motion.kinematics import Kinematics, build_clip
from rsl_rl.motion.page import gather_motion
from rsl_rl.robots import ROBOTS
from tests.docs_blocks import commands


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words):
    return main(["motion", *words])


def template(folder):
    """A web page without content."""
    path = folder / "template.html"
    path.write_bytes(b'<script type="application/json" id="page-data">{}</script>')
    return path


def test_commands_of_the_page_run_as_written(here, root, monkeypatch, capsys):
    """In the order of the page; the film itself is rendered by a slow test."""
    from rsl_rl.viz import page as web_page
    from rsl_rl.viz import video

    films = []
    monkeypatch.setattr(web_page, "TEMPLATE", template(here))
    monkeypatch.setattr(video, "write_video", lambda path, film: films.append(path))
    robot = ROBOTS.load("g1")
    clip = generate(robot, "walk", 0.4, fps=30.0, seconds=2.0)
    quat = clip.root_quat.numpy()[:, [1, 2, 3, 0]]
    rows = np.hstack((clip.root_pos, quat, clip.joint_pos, np.zeros((clip.num_frames, 17))))
    np.savetxt("walk.csv", rows, delimiter=",")
    page = commands(root / "docs" / "motion.md")
    assert len(page) == 9
    for command in page:
        assert main(command.split()[1:]) == 0, capsys.readouterr().err
    assert films == [Path("trot.mp4")] and Path("trot.html").is_file()
    torch.testing.assert_close(load_clip("g1_walk.npz").joint_pos, clip.joint_pos, atol=1e-5, rtol=0)
    trot = load_clip("trot.npz")
    assert trot.loop and float(trot.link_vel[:, 0, 0].mean()) == pytest.approx(0.8, abs=0.02)
    assert main(["motion", "import", "trot_mjlab.npz", "--robot", "go2_flat", "--output", "back.npz"]) == 0
    assert "found: quaternions wxyz, lengths in m, z up" in capsys.readouterr().out
    back = load_clip("back.npz")
    assert back.num_frames == 501
    torch.testing.assert_close(back.joint_pos[: trot.num_frames], trot.joint_pos, atol=1e-5, rtol=0)


def test_motions_of_a_robot_are_listed(here, capsys):
    assert run("generate", "--robot", "g1") == 0
    listed = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert listed["walk"] == "gait" and listed["squat"] == "on the spot" and "trot" not in listed


def test_faults_are_reported_with_exit_code_1_and_mended(here, capsys):
    robot = ROBOTS.load("go2")
    kinematics = Kinematics(robot)
    assert run("generate", "--robot", "go2", "--motion", "sit", "--output", "sit.npz") == 0
    clip = load_clip("sit.npz")
    low = clip.root_pos - torch.tensor([0.0, 0.0, 0.04])
    save_clip(build_clip(kinematics, low, clip.root_quat, clip.joint_pos, 50.0, "low"), Path("low.npz"))
    capsys.readouterr()
    assert run("check", "low.npz", "--robot", "go2") == 1
    assert "floor: frames 0 to 125:" in capsys.readouterr().out
    assert run("check", "low.npz", "--robot", "go2", "--mend", "limits") == 1  # the fault is left
    assert run("check", "low.npz", "--robot", "go2", "--mend", "floor") == 0
    torch.testing.assert_close(load_clip("low_mended.npz").root_pos, clip.root_pos, atol=1e-4, rtol=0)


def test_film_shows_the_clip(here, monkeypatch):
    from rsl_rl.viz import video

    films = []
    monkeypatch.setattr(video, "write_video", lambda path, film: films.append((path, film)))
    assert run("generate", "--robot", "go2", "--gait", "pace", "--output", "pace.npz") == 0
    assert run("show", "pace.npz", "--robot", "go2") == 0
    path, film = films[0]
    assert path == Path("pace.mp4") and film.poses.shape == (150, 1, 19) and len(film.captions) == 150
    clip = load_clip("pace.npz")
    np.testing.assert_allclose(film.poses[0, 0, 7:], clip.joint_pos[0], atol=1e-6)
    assert film.poses[-1, 0, 0] - film.poses[0, 0, 0] == pytest.approx(0.51 * 5.96, abs=0.1)


def test_web_page_has_the_poses_of_the_clip(here, monkeypatch, capsys):
    from rsl_rl.viz import page

    monkeypatch.setattr(page, "TEMPLATE", template(here))
    assert run("generate", "--robot", "go2", "--gait", "pace", "--output", "pace.npz") == 0
    assert run("show", "pace.npz", "--robot", "go2_flat", "--output", "pace.html") == 0
    assert "page: pace.html (" in capsys.readouterr().out
    (content,) = re.findall(r"<script[^>]*>(.*)</script>", Path("pace.html").read_text())
    data, clip = json.loads(content), load_clip("pace.npz")
    motion = data["motion"]
    assert (data["robots"], data["training"]) == ([], None)
    assert (motion["name"], motion["fps"], motion["loop"]) == (clip.name, 50.0, True)
    poses = np.frombuffer(gzip.decompress(base64.b64decode(motion["poses"])), "<f4").reshape(clip.num_frames, -1)
    np.testing.assert_array_equal(poses, np.hstack((clip.root_pos, clip.root_quat, clip.joint_pos)))
    with pytest.raises(ValueError, match="not a page of policies"):
        page.read_robots(Path("pace.html"))


def test_web_page_of_a_clip_with_joints_in_another_order_has_that_of_the_model():
    go2 = ROBOTS.load("go2")
    clip = generate(go2, "bow")
    order = list(reversed(range(12)))
    names, joint_pos = tuple(clip.joint_names[i] for i in order), clip.joint_pos[:, order]
    expected = gather_motion(clip, go2, "go2").poses
    assert gather_motion(replace(clip, joint_names=names, joint_pos=joint_pos), go2, "go2").poses == expected


@pytest.mark.slow
def test_film_is_rendered(here):
    assert run("generate", "--robot", "go2", "--gait", "bound", "--output", "bound.npz") == 0
    assert run("show", "bound.npz", "--robot", "go2", "--seconds", "0.5", "--output", "bound.webp") == 0
    assert Path("bound.webp").stat().st_size > 1000


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["generate", "--robot", "go3", "--gait", "trot"], "unknown robot 'go3'"),
        (["generate", "--robot", "go2", "--gait", "trott"], "Did you mean 'trot'"),
        (["generate", "--robot", "go2", "--gait", "trot", "--speed", "fast"], "invalid float"),
        (["generate", "--robot", "go2", "--gait", "trot", "--output", "no/a.npz"], "no folder no"),
        (["import", "none.csv", "--robot", "go2"], "none.csv"),
        (["import", "walk.csv", "--robot", "go2"], "add --joints model"),
        (["import", "walk.csv", "--robot", "go2", "--joints", "model"], "add --fps"),
        (["import", "walk.csv", "--robot", "go2", "--format", "c3d"], "unknown format 'c3d'"),
        (["import", "walk.csv", "--robot", "go2", "--up", "north"], "up is 'north'"),
        (["show", "walk.csv", "--robot", "go2"], "not a .npz"),
        (["show", "sit.npz", "--robot", "g1"], "is of another robot"),
        (["import", "sit.npz", "--robot", "g1"], "is of another robot"),
        (["check", "sit.npz", "--robot", "go2", "--output", "a.npz"], "add --mend"),
        (["check", "none.npz", "--robot", "go2"], "there is no file none.npz; check the path"),
        (["show", "sit.npz", "--robot", "go2", "--output", "sit.gif"], "give .mp4, .webp or .html"),
        (
            ["show", "sit.npz", "--robot", "go2", "--output", "sit.html", "--seconds", "3"],
            "leave it out for a web page",
        ),
        (["show", "nan.npz", "--robot", "go2", "--output", "nan.html"], "not finite; mend it with"),
        (["check", "sit.npz", "--robot", "go2", "--mend", "wobble"], "cannot be mended"),
        (["retarget", "sit.npz", "--from", "go2", "--to", "g1"], "robots of one kind"),
        (["export", "sit.npz", "--seconds", "3"], "does not loop; leave out --seconds"),
        (["export", "sit.npz", "--format", "bvh"], "not written as 'bvh'"),
        (["export", "sit.npz", "--model", "bad.xml"], "bad.xml cannot be loaded: XML Error"),
        (["dance"], "invalid choice"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(here, capsys, sit, words, message):
    shutil.copy(sit, "sit.npz")
    rows = np.full((5, 19), 0.1)
    rows[:, 3:7] = 0.5  # a quaternion
    np.savetxt("walk.csv", rows, delimiter=",")
    Path("bad.xml").write_text("<mujoco><bad/></mujoco>")
    clip = load_clip(sit)
    save_clip(replace(clip, joint_pos=torch.full_like(clip.joint_pos, torch.nan)), "nan.npz")
    assert run(*words) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1, error


@pytest.fixture(scope="module")
def sit(tmp_path_factory):
    path = tmp_path_factory.mktemp("clips") / "sit.npz"
    assert main(["motion", "generate", "--robot", "go2", "--motion", "sit", "--output", str(path)]) == 0
    return path
