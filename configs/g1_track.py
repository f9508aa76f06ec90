"""Unitree G1, following reference motions with its legs; the upper body is fixed."""

from __future__ import annotations

from dataclasses import dataclass, field

from rsl_rl.config.learn import RunnerConfig
from rsl_rl.config.task import LeggedRobotConfig

from .g1_flat import biped_task
from .go2_track import Go2Track
from .tracking import biped_tracking_task

CLIPS = ("walk", "squat", "side_step")

_KEY_BODIES = ("trunk", *(f"{side}_{part}" for part in ("thigh", "shin", "foot") for side in ("left", "right")))


def g1_track_task() -> LeggedRobotConfig:
    """Return the task."""
    return biped_tracking_task(biped_task(), _KEY_BODIES, CLIPS)


@dataclass(frozen=True)
class G1Track(Go2Track):
    """Unitree G1, following reference motions with its legs: walk, squat and side step, in one policy."""

    task: str = "g1_track"
    env: LeggedRobotConfig = field(default_factory=g1_track_task)
    runner: RunnerConfig = RunnerConfig(max_iterations=1400, save_interval=100, experiment_name="g1_track")
