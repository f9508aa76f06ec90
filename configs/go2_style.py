"""Unitree Go2 on flat ground, following velocity commands in the style of reference motions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Tuple

from rsl_rl.config.extensions import AMPConfig, ExtensionConfig
from rsl_rl.config.learn import RunnerConfig
from rsl_rl.config.mdp import CommandTerm, ObservationGroupConfig, ObservationTerm, RewardTerm
from rsl_rl.config.task import LeggedRobotConfig

from .go2_flat import Go2Flat, flat_task

_TERMS = "rsl_rl.tasks.mdp.style"

SPEEDS = (0.2, 0.5, 0.8)
"""Forward velocities of the clips [m/s]."""

MOTIONS = {
    style: (
        *(f"{style} speed={speed}" for speed in SPEEDS),
        f"{style} speed=0 side=0.3",
        f"{style} speed=0 side=-0.3",
        f"{style} speed=0 turn=0.6",
        f"{style} speed=-0.3",
        "stand",
    )
    for style in ("pace", "bound")
}
"""Clips of each style."""

STATE = {
    "joint_pos": ObservationTerm(),
    "joint_vel": ObservationTerm(scale=0.1),
    "base_height": ObservationTerm(scale=5.0),
    "gravity": ObservationTerm(scale=3.0),
    "foot_positions": ObservationTerm(scale=3.0),
}
"""State of the discriminator. It has no velocity of the trunk, so that the style holds for other commands too."""

RHYTHMS = {style: f"{style} speed=0.5" for style in MOTIONS}
"""Clips that give the clock of the feet."""


def style_task() -> LeggedRobotConfig:
    """Return flat_task with a clock of each foot in place of its trot, in the rhythm of the clips of the told style."""
    task = flat_task()
    told = {"foot_clock": ObservationTerm(), "style": ObservationTerm()}
    groups = {
        name: ObservationGroupConfig({**_without(group.terms, "gait_clock"), **told})
        for name, group in task.observations.items()
    }
    groups["style"] = ObservationGroupConfig({**STATE, **told})
    commands = {
        "style": CommandTerm(f"{_TERMS}:Style", {"styles": tuple(MOTIONS), "resampling_time": 3.0, "only": ""}),
        "foot_clock": CommandTerm(f"{_TERMS}:FootClock", {"clips": RHYTHMS}),
    }
    rewards = {
        **_without(task.rewards.terms, "foot_timing"),
        # narrower and heavier than in go2_flat, for smaller errors; both together, because one alone makes the error of
        # the other one larger
        "track_lin_vel": RewardTerm(5.5, f"{_TERMS}:lin_vel_in_rhythm", {"tracking_sigma": 0.1}),
        "track_yaw_rate": RewardTerm(2.75, f"{_TERMS}:yaw_rate_in_rhythm", {"tracking_sigma": 0.12}),
        "foot_rhythm": RewardTerm(2.0, f"{_TERMS}:foot_rhythm"),
        "feet_air_time": RewardTerm(1.0, params={"air_time_target": 0.2}),
        # a pace sways, and a bound pitches and bounces
        "lin_vel_z": RewardTerm(-0.5),
        "ang_vel_xy": RewardTerm(-0.02),
        "orientation": RewardTerm(-1.0),
    }
    return replace(
        task,
        observations=groups,
        commands=replace(task.commands, terms=commands),
        rewards=replace(task.rewards, terms=rewards),
        gate={"fall_rate": 0.02, "lin_vel_error": 0.2, "yaw_rate_error": 0.2},
    )


def _without(terms: dict, *names: str) -> dict:
    return {name: term for name, term in terms.items() if name not in names}


@dataclass(frozen=True)
class Go2Style(Go2Flat):
    """Unitree Go2 that paces or bounds, as it is told, in the style of clips."""

    task: str = "go2_style"
    env: LeggedRobotConfig = field(default_factory=style_task)
    extensions: Tuple[ExtensionConfig, ...] = (AMPConfig(MOTIONS, weight=0.02, style_size=len(MOTIONS)),)
    runner: RunnerConfig = RunnerConfig(max_iterations=450, save_interval=50, experiment_name="go2_style")
