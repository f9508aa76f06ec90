"""Unitree Go2 on flat ground, following velocity commands in the style of reference motions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Tuple

from rsl_rl.config.extensions import AMPConfig, ExtensionConfig
from rsl_rl.config.learn import RunnerConfig
from rsl_rl.config.mdp import CommandTerm, ObservationGroupConfig, ObservationTerm
from rsl_rl.config.task import LeggedRobotConfig

from .go2_flat import Go2Flat, flat_task

SPEEDS = (0.2, 0.5, 0.8)
"""Forward velocities of the clips [m/s]."""

MOTIONS = {
    style: (
        *(f"{style} speed={speed}" for speed in SPEEDS),
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


def style_task(styles: Tuple[str, ...] = ("pace", "bound")) -> LeggedRobotConfig:
    """Return go2_flat without its own gait: no clock, and no reward of footfalls."""
    task = flat_task()
    style = {"style": ObservationTerm()}
    groups = {}
    for name, group in task.observations.items():
        groups[name] = ObservationGroupConfig({**_without(group.terms, "gait_clock"), **style})
    groups["style"] = ObservationGroupConfig({**STATE, **style})
    own = (
        "foot_timing",
        "feet_air_time",
        "abduction_deviation",
        "base_height",
        "orientation",
        "lin_vel_z",
        "ang_vel_xy",
    )
    return replace(
        task,
        observations=groups,
        commands=replace(
            task.commands,
            terms={
                "style": CommandTerm(
                    "rsl_rl.tasks.mdp.style:Style", {"styles": styles, "resampling_time": 5.0, "only": ""}
                )
            },
        ),
        rewards=replace(task.rewards, terms=_without(task.rewards.terms, *own)),
        gate={"fall_rate": 0.02, "lin_vel_error": 0.2, "yaw_rate_error": 0.2},
    )


def _without(terms: dict, *names: str) -> dict:
    return {name: term for name, term in terms.items() if name not in names}


@dataclass(frozen=True)
class Go2Style(Go2Flat):
    """Unitree Go2 that should pace or bound, as clips do; an experiment, whose policy stands still so far."""

    task: str = "go2_style"
    env: LeggedRobotConfig = field(default_factory=style_task)
    extensions: Tuple[ExtensionConfig, ...] = (AMPConfig(MOTIONS, weight=0.05, style_size=len(MOTIONS)),)
    runner: RunnerConfig = RunnerConfig(max_iterations=400, save_interval=50, experiment_name="go2_style")
