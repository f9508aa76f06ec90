"""Unitree Go2 on rough ground: slopes, stairs, obstacles and waves, with a curriculum.

The shipped size learns on one CPU core in about 20 minutes: rsl-rl train --task go2_rough
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.config.experiment import TrainConfig
from rsl_rl.config.learn import RunnerConfig
from rsl_rl.config.mdp import EventTerm, ObservationTerm
from rsl_rl.config.policy import SymmetricActorCriticConfig
from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.config.terrain import TerrainConfig

from .go2_flat import Go2Flat, go2_task

TERRAIN = TerrainConfig(
    types={
        "slope_up": 2.0,
        "slope_down": 1.0,
        "rough_slope_up": 2.0,
        "rough_slope_down": 1.0,
        "stairs_up": 3.0,
        "stairs_down": 2.0,
        "obstacles": 2.0,
        "waves": 1.0,
    },
    tile_size=6.0,
    platform_size=1.6,
    num_levels=10,
    num_columns=14,
)
"""Tiles that most robots leave within one episode."""

_LEFT_OUT = ("base_height", "foot_slip")
"""Reward terms of go2_flat that ask for what rough ground does not allow."""


def rough_task() -> LeggedRobotConfig:
    """Return go2_task on rough ground, with the hips at 0.1 rad, as in the robot's own pose, and a narrower reward for
    the velocity: slopes change it."""
    task = on_rough_ground(go2_task(hip_angle=0.1), trunk_height=0.3)
    return replace(task, rewards=task.rewards.with_params("track_lin_vel", tracking_sigma=0.1))


def on_rough_ground(task: LeggedRobotConfig, trunk_height: float) -> LeggedRobotConfig:
    """Return a task of a quadruped on rough ground, with a height scan for policy and critic.

    The command changes once in an episode, except one to stand, turns slowly, and is seldom slow, so that most robots
    leave their tiles.
    ``trunk_height`` is that of a standing robot [m].
    """
    terms = {name: term for name, term in task.rewards.terms.items() if name not in _LEFT_OUT}
    softer = {"lin_vel_z": -1.0, "orientation": -0.2, "abduction_deviation": -0.2}
    # Policy and critic have the same errors, so that there is one look-up.
    scan = ObservationTerm(scale=5.0, noise=0.02, params={"with_error": True, "trunk_height": trunk_height})
    return replace(
        task,
        terrain=TERRAIN,
        episode_length=10.0,
        observations={
            "policy": task.observations["policy"].with_terms({"height_scan": scan}),
            "critic": task.observations["critic"].with_terms({"height_scan": replace(scan, noise=0.0)}),
        },
        commands=replace(task.commands, yaw_rate=(-0.4, 0.4), resampling_time=5.0, slow_fraction=0.15),
        rewards=replace(task.rewards, terms=terms).with_weights(softer),
        randomization=task.randomization.with_terms(
            {"push": EventTerm("interval", 8.0), "scan_error": EventTerm("reset")}
        ),
        gate={"fall_rate": 0.1, "lin_vel_error": 0.3, "yaw_rate_error": 0.3},
    )


@dataclass(frozen=True)
class Go2Rough(TrainConfig):
    """Unitree Go2 on rough ground, following velocity commands."""

    task: str = "go2_rough"
    env: LeggedRobotConfig = field(default_factory=rough_task)
    policy: SymmetricActorCriticConfig = SymmetricActorCriticConfig(
        actor_hidden_dims=(128, 64, 32), critic_hidden_dims=(128, 64, 32)
    )
    algorithm: PPOConfig = Go2Flat.algorithm
    runner: RunnerConfig = RunnerConfig(max_iterations=600, save_interval=50, experiment_name="go2_rough")
