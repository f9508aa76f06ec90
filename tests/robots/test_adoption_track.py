"""What adoption chooses for a task of reference motions."""

import pytest

from rsl_rl.adoption.adopt import adopt_model
from rsl_rl.adoption.track_file import key_bodies, track_clips
from rsl_rl.robots import ROBOTS
from rsl_rl.utils.registry import import_object


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
