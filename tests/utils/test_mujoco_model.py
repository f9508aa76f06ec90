"""The model of a robot's file is loaded."""

import os

import mujoco
import numpy as np

from rsl_rl.utils.mujoco_model import load_model, without_log

BALL = '<mujoco><worldbody><body pos="0 0 {}"><freejoint/><geom name="ball" size=".1"/></body></worldbody></mujoco>'


def test_loading_and_stepping_a_model_with_bad_numbers_leaves_no_log_file(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    for height in ("1", "nan"):
        (tmp_path / "ball.xml").write_text(BALL.format(height))
        model = load_model("ball.xml")
    data = mujoco.MjData(model)
    data.qvel[:] = 1e40
    with without_log():
        mujoco.mj_step(model, data)
    assert np.isnan(model.body_pos[1, 2]) and data.warning.number.sum() > 0
    assert os.listdir(tmp_path) == ["ball.xml"] and capfd.readouterr() == ("", "")
