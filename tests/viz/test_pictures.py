"""Pictures of a robot in several poses."""

import numpy as np
import pytest
from PIL import Image

from rsl_rl.robots.go2 import GO2
from rsl_rl.viz.video import Picture, VideoError, write_pictures
from tests.viz.test_video import has_gl

STANDING = np.array([0, 0, 0.3, 1, 0, 0, 0, *GO2.default_joint_pos])


def test_sheet_has_a_place_for_each_picture_and_shows_the_robot(tmp_path, monkeypatch):
    if not has_gl():
        pytest.skip("no OpenGL driver: apt-get install libegl1 libegl-mesa0 libgl1-mesa-dri")
    monkeypatch.delenv("DISPLAY", raising=False)
    lifted = STANDING.copy()
    lifted[2] = 3.0  # the camera follows
    pictures = [Picture(STANDING, "standing"), Picture(STANDING, "side", 90.0), Picture(lifted, "lifted")]
    write_pictures(tmp_path / "sheet.png", GO2.model_path, pictures, columns=2, size=(160, 120))
    sheet = np.asarray(Image.open(tmp_path / "sheet.png")).astype(float)
    assert sheet.shape == (240, 320, 3)
    assert (sheet[120:, 160:] == 255).all()  # three pictures in two rows
    tiles = [sheet[:120, :160], sheet[:120, 160:], sheet[120:, :160]]
    assert all(tile[40:90, 50:110].std() > 20 for tile in tiles)  # a robot in the middle of each
    assert np.abs(tiles[0] - tiles[1]).mean() > 2


def test_missing_driver_is_one_line_that_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "no-such-driver")
    with pytest.raises(VideoError, match=r"^no pictures: .*install"):
        write_pictures(tmp_path / "sheet.png", GO2.model_path, [Picture(STANDING, "x")], 1)
