"""How far robots drift that are commanded to stand."""

from __future__ import annotations

from dataclasses import replace
from typing import Dict

import torch

from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.evaluation.evaluate import ActingPolicy
from rsl_rl.tasks.legged_robot import LeggedRobot

SETTLING_TIME, DRIFT_TIME = 2.0, 10.0
"""Time before the measurement, and its length [s]."""

DESCRIPTIONS = {
    "standing_drift": "mean horizontal drift in 10 s of robots that are to stand [m]",
    "standing_drift_max": "largest of these drifts [m]",
    "standing_falls": "share of robots that fell while they were to stand",
}
"""Description and unit of each metric."""


def for_standing(cfg: LeggedRobotConfig) -> LeggedRobotConfig:
    """Return the task of an evaluation with the command to stand only."""
    zero = (0.0, 0.0)
    others = {name: term for name, term in cfg.commands.terms.items() if name != "velocity"}
    commands = replace(cfg.commands, lin_vel_x=zero, lin_vel_y=zero, yaw_rate=zero, heading_fraction=0.0, terms=others)
    return replace(cfg, commands=commands, episode_length=max(cfg.episode_length, 2 * (SETTLING_TIME + DRIFT_TIME)))


@torch.no_grad()
def measure_drift(env: LeggedRobot, policy: ActingPolicy) -> Dict[str, float]:
    """Return mean and largest horizontal drift of standing robots in 10 s [m], and the share that fell."""
    control_dt = env.cfg.sim.control_dt
    settling, steps = round(SETTLING_TIME / control_dt), round(DRIFT_TIME / control_dt)
    obs = env.reset()
    policy.reset()
    fallen = torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
    start = env.sim.root_pos.clone()
    for i in range(settling + steps):
        if i == settling:
            start = env.sim.root_pos.clone()
        obs, _, done, _ = env.step(policy(obs))
        policy.reset(done)
        fallen |= done
    drift = (env.sim.root_pos - start)[:, :2].norm(dim=1)[~fallen]
    mean, largest = (float(drift.mean()), float(drift.max())) if len(drift) else (float("nan"),) * 2
    return {
        "standing_drift": mean,
        "standing_drift_max": largest,
        "standing_falls": float(fallen.float().mean()),
    }
