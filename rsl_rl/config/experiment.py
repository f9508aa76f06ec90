"""The complete config of an experiment: environment and learner."""

from __future__ import annotations

from dataclasses import dataclass, field

from rsl_rl.config.learn import LearnConfig
from rsl_rl.config.progress import ProgressConfig
from rsl_rl.config.task import LeggedRobotConfig, TaskConfig


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
