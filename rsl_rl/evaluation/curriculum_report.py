"""Training callback that draws the levels of a terrain curriculum, and reports one on which robots do not advance."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Callable, Dict, List

from rsl_rl.tasks.legged_robot import LeggedRobot
from rsl_rl.terrain.terrain import Progress

INTERVAL = 100
"""Updates between two checks."""

_METRIC = "episode/terrain_level"

_LOW = 0.1
"""Mean level below which robots are still on level 0."""


class CurriculumReport:
    """After every INTERVAL updates and the last, draw the levels of the run so far as terrain_levels.png, and print a
    line with the reason if the mean level is about 0."""

    def __init__(
        self, env: LeggedRobot, folder: Path, last: int, print_line: Callable[[str], None], interval: int = INTERVAL
    ):
        self._env, self._folder, self._last = env, folder, last
        self._print_line, self._interval = print_line, interval

    def __call__(self, iteration: int) -> Dict[str, float]:
        if iteration % self._interval == 0 or iteration == self._last:
            progress = self._env.levels.read_progress()
            if progress is not None and progress.mean_level < _LOW:
                self._print_line(describe(progress, self._env, self._interval))
            write_curves(self._folder)
        return {}


def describe(progress: Progress, env: LeggedRobot, updates: int) -> str:
    """Return what the robots reached, what a promotion asks for, and what to change."""
    terrain = env.cfg.terrain
    needed, seconds = terrain.promotion_distance * terrain.tile_size, env.cfg.episode_length
    reached = (
        f"in the last {updates} updates robots walked {progress.walked:.2f} m in an episode on average and commands "
        f"asked for {progress.commanded:.2f} m, a promotion needs {needed:.2f} m, and "
        f"{100 * progress.fall_rate:.0f} % of {progress.episodes} episodes ended with a fall"
    )
    if progress.commanded < needed:
        remedy = f"give faster commands or more than env.episode_length={seconds:g} s"
    elif progress.fall_rate > 0.5:
        remedy = "train longer, or make level 0 easier"
    else:
        remedy = "robots do not follow the commands: train longer, or raise the weights of tracking"
    return f"terrain curriculum: the mean level is {progress.mean_level:.2f}: {reached}; {remedy}"


def write_overview(env: LeggedRobot, folder: Path) -> List[str]:
    """Write terrain.png into a run's folder; return a note for the user if that is not possible."""
    try:
        from rsl_rl.viz.terrain_picture import draw_terrain
    except ModuleNotFoundError as error:
        return [f"no picture of the terrain: {error}; install the extra: pip install 'rsl-rl-lib[sim]'"]
    terrain = env.terrain
    assert terrain is not None  # the caller has checked
    names = [terrain.types[kind] for kind in terrain.column_types]
    draw_terrain(terrain.ground, terrain.origins, names, env.cfg.terrain.level < 0, folder / "terrain.png")
    return []


def write_curves(folder: Path) -> None:
    """Draw the levels in the metrics of a run as terrain_levels.png, if there are some and matplotlib is installed."""
    try:
        from rsl_rl.viz.terrain_picture import draw_levels
    except ModuleNotFoundError:
        return  # write_overview has said so
    path = folder / "metrics.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
    rows = [row for row in rows if _METRIC in row]
    if rows:
        names = [name for name in rows[-1] if name.startswith(_METRIC)]
        labels = [name[len(_METRIC) + 1 :] or "all types" for name in names]
        levels = {label: [row.get(name) for row in rows] for label, name in zip(labels, names)}
        draw_levels([row["iteration"] for row in rows], levels, folder / "terrain_levels.png")
