"""The complete config of an experiment: environment and learner."""

from __future__ import annotations

from dataclasses import dataclass, field

from rsl_rl.config.learn import LearnConfig
from rsl_rl.config.progress import ProgressConfig
from rsl_rl.config.task import LeggedRobotConfig, TaskConfig


@dataclass(frozen=True)
class TrainConfig(LearnConfig):
    """An experiment. Derive a class, set ``env`` and the other values, and add a line to configs/__init__.py."""

    task: str = ""
    """Name of the experiment in configs/__init__.py."""
    sim_device: str = "auto"
    """Device of the physics: cpu, cuda, cuda:0, ..., or auto: a GPU where there is one and an engine for it."""
    rl_device: str = "auto"
    """Device of the networks: cpu, cuda, cuda:0, ..., or auto: that of the physics."""
    env: TaskConfig = field(default_factory=LeggedRobotConfig)
    """The environment."""
    progress: ProgressConfig = field(default_factory=ProgressConfig)
    """Evaluations and videos during the training."""
