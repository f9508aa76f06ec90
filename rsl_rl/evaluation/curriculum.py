"""Which level of terrain robots reach that start on the lowest one."""

from __future__ import annotations

from dataclasses import replace
from typing import Dict

import torch

from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.evaluation.evaluate import ActingPolicy
from rsl_rl.tasks.legged_robot import LeggedRobot
from rsl_rl.terrain.levels import TerrainLevels

CLIMBING_TIME, AVERAGED_TIME = 150.0, 50.0
"""Time in which robots reach their level, and time of which the mean is taken [s]."""

DESCRIPTIONS = {"terrain_level": "mean level of terrain from 150 to 200 s after all robots started on level 0"}
"""Description of the metric."""


def for_curriculum(cfg: LeggedRobotConfig, task: LeggedRobotConfig) -> LeggedRobotConfig:
    """Return the task of an evaluation with the curriculum, the episodes and the commands of the training ``task``, and
    all robots on the lowest level."""
    terrain = replace(task.terrain, max_start_level=0)
    if not terrain.has_curriculum:
        raise ValueError(
            "--curriculum: robots do not move between levels here; take a task on rough ground, such as "
            "go2_rough, without --terrain and --level"
        )
    commands = replace(cfg.commands, resampling_time=task.commands.resampling_time)
    return replace(cfg, terrain=terrain, episode_length=task.episode_length, commands=commands)


@torch.no_grad()
def measure_level(env: LeggedRobot, policy: ActingPolicy) -> Dict[str, float]:
    """Return the mean level of all robots after they had time to reach it."""
    levels = env.levels
    assert isinstance(levels, TerrainLevels)  # by for_curriculum
    climbing, averaged = (round(time / env.cfg.sim.control_dt) for time in (CLIMBING_TIME, AVERAGED_TIME))
    obs = env.reset()
    policy.reset()
    total = torch.zeros((), device=env.device)
    for i in range(climbing + averaged):
        obs, _, done, _ = env.step(policy(obs))
        policy.reset(done)
        if i >= climbing:
            total += levels.level.float().mean()
    return {"terrain_level": float(total) / averaged}
