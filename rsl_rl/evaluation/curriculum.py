"""Levels of a terrain curriculum: which one robots reach that start on the lowest, and a report while training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Callable, Dict, List

import torch

from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.evaluation.conditions import ActingPolicy, run
from rsl_rl.loggers.logger import read_metrics
from rsl_rl.tasks.legged_robot import LeggedRobot
from rsl_rl.terrain.terrain import Progress, TerrainLevels

CLIMBING_EPISODES, AVERAGED_EPISODES = 1.5, 0.5
"""Episodes in which robots reach their level, and episodes over which the mean is taken, per level of the terrain."""

LEVEL_METRICS = {"terrain_level": "mean level of terrain that robots reach from level 0"}
"""Description of the metric of :func:`measure_level`."""

INTERVAL = 100
"""Updates between two checks of the report."""

_METRIC = "episode/terrain_level"

_LOW = 0.1
"""Mean level below which robots are still on level 0."""


def require_curriculum(task: LeggedRobotConfig) -> LeggedRobotConfig:
    """Return the task; raise a ValueError if its robots do not move between levels."""
    if not task.terrain.has_curriculum:
        raise ValueError(
            "--curriculum: robots do not move between levels here; take a task on rough ground, such as go2_rough, "
            "without --terrain and --level"
        )
    return task


def for_curriculum(cfg: LeggedRobotConfig, task: LeggedRobotConfig) -> LeggedRobotConfig:
    """Return the task of an evaluation with the curriculum, the episode length and the time between commands of the
    training ``task``. All robots start on the lowest level."""
    terrain = replace(task.terrain, max_start_level=0)
    commands = replace(cfg.commands, resampling_time=task.commands.resampling_time)
    return replace(cfg, terrain=terrain, episode_length=task.episode_length, commands=commands)


@torch.no_grad()
def measure_level(env: LeggedRobot, policy: ActingPolicy) -> Dict[str, float]:
    """Return the mean level of all robots after they had time to reach it.

    A robot that crosses the highest level gets a random one, so the mean stays below the highest level.
    """
    levels = env.levels
    assert isinstance(levels, TerrainLevels)
    length = env.cfg.terrain.num_levels * int(env.max_episode_length)  # of one episode on each level
    climbing, averaged = round(CLIMBING_EPISODES * length), round(AVERAGED_EPISODES * length)
    total = torch.zeros((), device=env.device)
    for i, _ in enumerate(run(env, policy, climbing + averaged)):
        if i >= climbing:
            total += levels.level.float().mean()
    return {"terrain_level": float(total) / averaged}


class CurriculumReport:
    """After every INTERVAL updates and the last, draw the levels of the run so far as terrain_levels.png, and print a
    line with the reason if the mean level is about 0."""

    def __init__(self, env: LeggedRobot, folder: Path, last: int, print_line: Callable[[str], None]):
        self._env, self._folder, self._last, self._print_line = env, folder, last, print_line

    def __call__(self, iteration: int) -> Dict[str, float]:
        if iteration % INTERVAL == 0 or iteration == self._last:
            progress = self._env.levels.read_progress()
            if progress is not None and progress.mean_level < _LOW:
                self._print_line(describe(progress, self._env))
            write_curves(self._folder)
        return {}


def describe(progress: Progress, env: LeggedRobot) -> str:
    """Return what the robots reached, what a promotion asks for, and what to change."""
    terrain = env.cfg.terrain
    needed, seconds = terrain.promotion_distance * terrain.tile_size, env.cfg.episode_length
    reached = (
        f"in the last {INTERVAL} updates robots walked {progress.walked:.2f} m in an episode on average and commands "
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
        from rsl_rl.evaluation.plots import draw_terrain
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
        from rsl_rl.evaluation.plots import draw_levels
    except ModuleNotFoundError:
        return  # write_overview has said so
    rows = [row for row in read_metrics(folder) if _METRIC in row]
    if rows:
        names = [name for name in rows[-1] if name.startswith(_METRIC)]
        labels = [name[len(_METRIC) + 1 :] or "all types" for name in names]
        levels = {label: [row.get(name) for row in rows] for label, name in zip(labels, names)}
        draw_levels([row["iteration"] for row in rows], levels, folder / "terrain_levels.png")
