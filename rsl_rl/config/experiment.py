"""The complete config of an experiment: environment, learner, and evaluations on the way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from rsl_rl.config.base import MAX_ENVS, Settings, require_counts, require_field, require_not_negative, require_positive
from rsl_rl.config.learn import LearnConfig
from rsl_rl.config.task import LeggedRobotConfig, TaskConfig


@dataclass(frozen=True)
class ProgressConfig(Settings):
    """Evaluations and videos during a training; they do not change the result of the training."""

    section: ClassVar[str] = "progress"

    video_interval: int = 0
    """Updates between two videos, videos/model_<iteration>.mp4 in the run's folder; there is also one after the last
    update. 0: none."""
    video_seconds: float = 5.0
    """Length of a video [s]."""
    video_robots: int = 4
    """Robots in a video."""
    evaluate_interval: int = 0
    """Updates between two evaluations, under evaluation/ in metrics.jsonl; there is also one after the last update. The
    best policy is saved as model_best.pt. 0: none."""
    evaluate_after: int = 0
    """Updates before the first of these evaluations."""
    evaluate_robots: int = 64
    """Robots in an evaluation."""
    evaluate_seconds: float = 10.0
    """Length of an evaluation [s]."""
    evaluate_command_period: float = 10.0
    """Time after which the robots of an evaluation get new commands [s]."""
    small_commands: bool = False
    """Whether each of these evaluations tests small commands and stops, for the criteria dead_zone and stop_drift of
    env.gate. With ``until_gate`` only where the evaluation has passed so far."""
    joystick_hours: float = 0.0
    """Robot-hours under a joystick in each of these evaluations, for the criteria failures_per_hour, freezes_per_hour
    and joystick_lin_vel_error of env.gate. 0: none. With ``until_gate`` only where the evaluation has passed so far."""
    until_gate: int = 0
    """End the training when this many evaluations in a row have passed the gate with the margin ``gate_score``. 0:
    train for max_iterations."""
    gate_score: float = 0.8
    """Largest score of such an evaluation; the score is the largest ratio of a metric to its limit in env.gate."""

    def __post_init__(self):
        super().__post_init__()
        require_counts(self, 0, "video_interval", "evaluate_interval", "evaluate_after", "until_gate")
        require_not_negative(self, "joystick_hours")
        require_counts(self, 1, "video_robots", high=100)
        require_counts(self, 1, "evaluate_robots", high=MAX_ENVS)
        require_positive(self, "video_seconds", "evaluate_seconds", "evaluate_command_period", "gate_score")
        evaluates = not self.until_gate or self.evaluate_interval
        require_field(self, "until_gate", bool(evaluates), " needs evaluations; give evaluate_interval, for example 10")


@dataclass(frozen=True)
class TrainConfig(LearnConfig):
    """An experiment. Derive a class and set ``env`` and the other values.

    A package registers its experiments as entry points of the group ``rsl_rl.tasks``; ``--task package.module:Class``
    needs no registration.
    """

    task: str = ""
    """Name of the experiment: that of --task in a training."""
    sim_device: str = "auto"
    """Device of the physics: cpu, cuda, cuda:0, ..., or auto: a GPU where there is one and an engine for it."""
    rl_device: str = "auto"
    """Device of the networks: cpu, cuda, cuda:0, ..., or auto: that of the physics."""
    env: TaskConfig = field(default_factory=LeggedRobotConfig)
    """The environment."""
    progress: ProgressConfig = field(default_factory=ProgressConfig)
    """Evaluations and videos during the training."""
