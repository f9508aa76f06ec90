"""What adoption chooses for a task of reference motions."""

import pytest

from rsl_rl.adoption.adopt import adopt_model
from rsl_rl.adoption.track_file import key_bodies, track_clips
from rsl_rl.cli import adopt_worker
from rsl_rl.robots import ROBOTS
from rsl_rl.utils.registry import import_object


def test_task_of_motions_that_does_not_run_is_left_out_with_its_reason(tmp_path, monkeypatch):
    def fail(folder, kind):
        raise ValueError("the task makes a step that is not finite")

    monkeypatch.setattr(adopt_worker, "require_task", fail)
    monkeypatch.setattr(adopt_worker, "possible_clips", lambda names, robot: (list(names), []))
    lines = adopt_worker.write_track_task(adopt_model(ROBOTS.load("go2").model_path, "dog"), tmp_path)
    assert lines == ["motions: none, so track.py is not written: the task makes a step that is not finite"]
    assert not (tmp_path / "track.py").exists()


@pytest.mark.parametrize(
    ("name", "task", "clips"),
    [
        ("go2", "configs.go2_track:track_task", ("trot speed=0.3", "trot speed=0.7", "sit", "stand_up")),
        ("g1", "configs.g1_track:g1_track_task", ("walk speed=0.4", "squat", "side_step")),
    ],
)
def test_choices_for_a_shipped_robot_are_those_of_its_own_task(name, task, clips):
    robot = adopt_model(ROBOTS.load(name).model_path, name)
    links = [link for row in key_bodies(robot) for link in row]
    assert sorted(links) == sorted(import_object(task)().metrics["mpkpe"].params["links"])
    assert track_clips(robot) == clips
