"""Which level of terrain robots reach that start on the lowest one."""

from __future__ import annotations

from dataclasses import replace
from typing import Dict

import torch

from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.evaluation.evaluate import ActingPolicy
from rsl_rl.tasks.legged_robot import LeggedRobot
from rsl_rl.terrain.terrain import TerrainLevels

CLIMBING_EPISODES, AVERAGED_EPISODES = 1.5, 0.5
"""Episodes in which robots reach their level, and episodes over which the mean is taken, per level of the terrain."""

DESCRIPTIONS = {"terrain_level": "mean level of terrain that robots reach from level 0"}
"""Description of the metric."""


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
    obs = env.reset()
    policy.reset()
    total = torch.zeros((), device=env.device)
    for i in range(climbing + averaged):
        obs, _, done, _ = env.step(policy(obs))
        policy.reset(done)
        if i >= climbing:
            total += levels.level.float().mean()
    return {"terrain_level": float(total) / averaged}
