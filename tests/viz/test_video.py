import os
import subprocess
import sys
import time

import numpy as np
import pytest

from rsl_rl.robots.go2 import GO2
from rsl_rl.viz import video
from rsl_rl.viz.video import (
    Picture,
    Renderer,
    VideoClip,
    VideoError,
    video_in_background,
    write_pictures,
    write_video,
)

POSE = np.array([0, 0, 0.3, 1, 0, 0, 0, *GO2.default_joint_pos])


def still(num_frames=1):
    """A film of a standing robot."""
    return VideoClip(GO2.model_path, np.tile(POSE, (num_frames, 1, 1)), ["x"] * num_frames, 10)


def has_gl() -> bool:
    """Whether MuJoCo can open a headless OpenGL context on this machine."""
    code = "import mujoco; m = mujoco.MjModel.from_xml_string('<mujoco/>'); mujoco.Renderer(m, 8, 8).close()"
    environment = {**os.environ, "MUJOCO_GL": "egl"}
    return (
        subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment, check=False).returncode == 0
    )


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # imageio leaves ffmpeg's pipes to the collector
def test_a_film_has_its_frames_and_shows_the_robot(tmp_path, monkeypatch):
    if not has_gl():
        pytest.skip("no OpenGL driver: apt-get install libegl1 libegl-mesa0 libgl1-mesa-dri")
    import imageio

    monkeypatch.delenv("DISPLAY", raising=False)
    poses = np.tile(POSE, (5, 2, 1))
    poses[:, :, 0] += np.linspace(0, 0.2, 5)[:, None]
    clip = VideoClip(GO2.model_path, poses, [f"frame {i}" for i in range(5)], 10)
    path = write_video(tmp_path / "film.mp4", clip, size=(320, 240))
    assert sorted(made.name for made in tmp_path.iterdir()) == ["film.mp4", "film_frames.png"]
    with imageio.get_reader(path) as clip:
        frames = [np.asarray(frame) for frame in clip]
    assert len(frames) == 5 and frames[0].shape == (240, 320, 3)
    centre = frames[0][90:150, 120:200].astype(float)
    assert centre.std() > 20  # a robot is there, not an empty floor


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_robot_far_from_the_origin_stands_on_the_same_floor(tmp_path, monkeypatch):
    if not has_gl():
        pytest.skip("no OpenGL driver: apt-get install libegl1 libegl-mesa0 libgl1-mesa-dri")
    import imageio

    monkeypatch.delenv("DISPLAY", raising=False)
    means = []
    for distance in (0.0, 400.0):  # a walk of minutes; 400 m are a multiple of the pattern of the floor
        poses = POSE[None, None] + np.array([distance, *[0.0] * (len(POSE) - 1)])
        path = write_video(tmp_path / "film.mp4", VideoClip(GO2.model_path, poses, ["x"], 10), size=(320, 240))
        with imageio.get_reader(path) as clip:
            floor = np.asarray(clip.get_data(0)).astype(float)[60:200]  # without sky and caption
            means.append(floor.mean(axis=(0, 1)))
    assert means[1] == pytest.approx(means[0], abs=3.0)  # of 255; without a floor it is brighter by more than 10


def test_a_missing_driver_is_one_line_that_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "glx_that_nobody_has")
    with pytest.raises(VideoError, match=r"^no video: .*apt-get install libegl1") as caught:
        write_video(tmp_path / "film.mp4", still())
    assert "\n" not in str(caught.value) and not list(tmp_path.iterdir())


def test_a_missing_package_names_the_extra(tmp_path, monkeypatch):
    (tmp_path / "imageio.py").write_text("raise ModuleNotFoundError(\"No module named 'imageio'\")\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(VideoError, match=r"pip install 'rsl-rl-lib\[video\]'"):
        write_video(tmp_path / "film.mp4", still())


def test_drivers_are_tried_until_one_draws(tmp_path, monkeypatch):
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    monkeypatch.setenv("DISPLAY", ":77")
    monkeypatch.setattr(sys, "platform", "linux")
    tried = []

    def run(self, recording, path, driver, timeout):
        tried.append(driver)
        if driver != "osmesa":
            return f"no {driver}"
        path.touch()
        path.with_name(f"{path.stem}_frames.png").touch()
        return None

    monkeypatch.setattr(Renderer, "run", run)
    assert write_video(tmp_path / "x.mp4", still()) == tmp_path / "x.mp4"
    assert sorted(made.name for made in tmp_path.iterdir()) == ["x.mp4", "x_frames.png"]
    assert tried == ["egl", "osmesa"]
    tried.clear()
    monkeypatch.setenv("MUJOCO_GL", "osmesa")  # the user's choice
    write_video(tmp_path / "y.mp4", still())
    assert tried == ["osmesa"]


def test_without_ffmpeg_no_other_driver_is_tried(tmp_path, monkeypatch):
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    (tmp_path / "imageio_ffmpeg.py").write_text("raise ModuleNotFoundError(\"No module named 'imageio_ffmpeg'\")\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    runs, real = [], Renderer.run
    monkeypatch.setattr(Renderer, "run", lambda *arguments: (runs.append(arguments), real(*arguments))[1])
    with pytest.raises(VideoError, match=r"imageio_ffmpeg.*pip install 'rsl-rl-lib\[video\]'$"):
        write_video(tmp_path / "film.mp4", still())
    assert len(runs) == 1


def test_a_driver_that_hangs_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "egl")
    monkeypatch.setattr(video, "_STARTING_TIME", 0.5)
    monkeypatch.setattr(video, "_FRAME_TIME", 0.0)
    (tmp_path / "imageio_ffmpeg.py").write_text("import time; time.sleep(60)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(VideoError, match="the renderer had not finished after 0 s"):
        write_video(tmp_path / "film.mp4", still())


def test_a_video_in_the_background_is_there_after_its_result(tmp_path):
    if not has_gl():
        pytest.skip("no OpenGL driver: apt-get install libegl1 libegl-mesa0 libgl1-mesa-dri")
    with video_in_background(tmp_path / "film.mp4", still()) as made:
        assert made.result() == tmp_path / "film.mp4"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["film.mp4", "film_frames.png"]


def test_an_error_of_a_video_in_the_background_is_raised_by_its_result(tmp_path, monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "glx_that_nobody_has")
    with video_in_background(tmp_path / "film.mp4", still()) as made, pytest.raises(VideoError, match="apt-get"):
        made.result()


def test_an_interrupt_ends_a_video_in_the_background(tmp_path, monkeypatch):
    """The renderer is killed, no file is left, and the interrupt is not held up until the video is finished."""
    monkeypatch.setenv("MUJOCO_GL", "egl")
    pid = tmp_path / "pid"
    (tmp_path / "imageio_ffmpeg.py").write_text(
        f"import os, time\nopen({str(pid)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    folder = tmp_path / "films"
    folder.mkdir()
    with pytest.raises(KeyboardInterrupt), video_in_background(folder / "film.mp4", still()) as made:
        while not (pid.is_file() and pid.read_text()):
            assert not made.done(), made.exception()
            time.sleep(0.05)
        assert not made.done()  # it is made while the body runs
        raise KeyboardInterrupt
    assert made.exception() is not None and "had not finished" not in str(made.exception())  # killed before its timeout
    assert not list(folder.iterdir())
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


@pytest.mark.parametrize("caption", ["", "robot 1: fall", "commanded vx +0.50 m/s    " * 6])
@pytest.mark.parametrize("size", [(960, 544), (640, 368), (320, 240)])
def test_captions_fit_into_their_pictures(caption, size):
    from PIL import ImageFont

    from rsl_rl.viz.render_worker import caption_height

    height = caption_height(["x", caption], *size)
    fits = ImageFont.load_default(size=height).getlength(caption) <= size[0] - 24
    assert 8 <= height <= 18 and (fits or height == 8)
    larger = ImageFont.load_default(size=height + 1).getlength(caption) > size[0] - 24
    assert larger or height == min(18, size[1] // 20)  # not smaller than it has to be


def test_a_renderer_without_its_parent_leaves(tmp_path):
    """As after the parent was killed: no half film goes on being made."""
    if not has_gl():
        pytest.skip("no OpenGL driver: apt-get install libegl1 libegl-mesa0 libgl1-mesa-dri")
    recording = tmp_path / "recording.npz"
    np.savez(recording, **still().arrays(), size=(64, 64))
    command = [sys.executable, "-m", "rsl_rl.viz.render_worker", str(recording), str(tmp_path / "film.mp4")]
    environment = {**os.environ, "MUJOCO_GL": "egl"}
    for parent, code in ((os.getpid(), 0), (os.getppid(), 1)):
        done = subprocess.run([*command, str(parent)], capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == code, done.stderr
    assert done.stderr.strip().splitlines()[-1] == "the parent process has ended"


@pytest.mark.parametrize(("frames", "shown"), [(1, [0] * 6), (6, [0, 1, 2, 3, 4, 5]), (126, [0, 25, 50, 75, 100, 125])])
def test_the_frames_at_a_glance_are_spread_evenly(frames, shown):
    from PIL import Image

    from rsl_rl.viz.render_worker import contact_sheet, evenly_spaced

    assert evenly_spaced(frames) == shown
    assert contact_sheet([Image.new("RGB", (30, 15))] * 6).size == (60, 20)


def test_sheet_has_a_place_for_each_picture_and_shows_the_robot(tmp_path, monkeypatch):
    if not has_gl():
        pytest.skip("no OpenGL driver: apt-get install libegl1 libegl-mesa0 libgl1-mesa-dri")
    from PIL import Image

    monkeypatch.delenv("DISPLAY", raising=False)
    lifted = POSE.copy()
    lifted[2] = 3.0  # the camera follows
    pictures = [Picture(POSE, "standing"), Picture(POSE, "side", 90.0), Picture(lifted, "lifted")]
    write_pictures(tmp_path / "sheet.png", GO2.model_path, pictures, columns=2)
    sheet = np.asarray(Image.open(tmp_path / "sheet.png")).astype(float)
    assert sheet.shape == (640, 800, 3)
    assert (sheet[320:, 400:] == 255).all()  # three pictures in two rows
    tiles = [sheet[:320, :400], sheet[:320, 400:], sheet[320:, :400]]
    assert all(tile[110:240, 125:275].std() > 20 for tile in tiles)  # a robot in the middle of each
    assert np.abs(tiles[0] - tiles[1]).mean() > 2


def test_missing_driver_of_pictures_is_one_line_that_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "no-such-driver")
    with pytest.raises(VideoError, match=r"^no pictures: .*install"):
        write_pictures(tmp_path / "sheet.png", GO2.model_path, [Picture(POSE, "x")], 1)
