"""What a training reports of a terrain curriculum."""

import json
from dataclasses import replace

import pytest

from configs.go2_rough import rough_task
from rsl_rl.config.terrain import TerrainConfig
from rsl_rl.evaluation.curriculum import CurriculumReport, describe
from rsl_rl.terrain.terrain import Progress

STUCK = Progress(episodes=640, walked=0.42, commanded=5.5, fall_rate=0.25, mean_level=0.02)


class Task:
    """The parts of a LeggedRobot that the report reads."""

    cfg = replace(rough_task(), terrain=TerrainConfig(types={"flat": 1.0}, tile_size=6.0))

    def __init__(self, *progress):
        self._progress = list(progress)
        self.levels = self

    def read_progress(self):
        return self._progress.pop(0)


def test_robots_that_stay_on_level_0_are_reported_with_the_reason(tmp_path):
    lines = []
    report = CurriculumReport(Task(STUCK, None, STUCK._replace(mean_level=0.5)), tmp_path, 300, lines.append)
    for iteration in range(1, 301):
        report(iteration)
    assert lines == [
        "terrain curriculum: the mean level is 0.02: in the last 100 updates robots walked 0.42 m in an episode on "
        "average and commands asked for 5.50 m, a promotion needs 3.00 m, and 25 % of 640 episodes ended with a fall; "
        "robots do not follow the commands: train longer, or raise the weights of tracking"
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [({"commanded": 2.9}, "give faster commands or more than env.episode_length=10 s"), ({"fall_rate": 0.6}, "easier")],
)
def test_the_remedy_fits_the_reason(change, words):
    assert words in describe(STUCK._replace(**change), Task())


def test_levels_of_the_run_are_drawn(tmp_path):
    rows = [{"iteration": i, "episode/terrain_level": 0.1 * i, "episode/terrain_level_gap": 0.0} for i in range(3)]
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in [{"iteration": 0}, *rows]))
    CurriculumReport(Task(None), tmp_path, 7, print)(7)
    assert (tmp_path / "terrain_levels.png").stat().st_size > 5000
