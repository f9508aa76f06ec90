"""Pictures of a robot on rough ground, with a real renderer."""

import numpy as np
import pytest

from rsl_rl.robots.go2 import GO2
from rsl_rl.utils.height_field import HeightField
from rsl_rl.viz.video import Picture, VideoError, write_pictures


def test_write_pictures_with_a_ground_draws_it(tmp_path):
    image = pytest.importorskip("PIL.Image")
    pose = np.array([0.0, 0.0, 0.75, 1, 0, 0, 0, *GO2.default_joint_pos])
    ground = HeightField(np.full((21, 21), 0.4, dtype=np.float32), 0.2, (-2.0, -2.0))
    drawn = []
    for name, given in (("plane.png", None), ("ground.png", ground)):
        try:
            write_pictures(tmp_path / name, GO2.model_path, [Picture(pose, "x")], 1, given)
        except VideoError as error:
            pytest.skip(str(error))
        drawn.append(np.asarray(image.open(tmp_path / name).convert("RGB")).astype(int))
    assert drawn[0].shape == drawn[1].shape and np.abs(drawn[0] - drawn[1]).mean() > 1.0
