"""Settings of the tasks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Dict

from rsl_rl.config.base import MAX_ENVS, TaskConfig, require, require_choice, require_counts, require_field
from rsl_rl.config.mdp import (
    CommandConfig,
    CommandLimitConfig,
    CommandTerm,
    ControlConfig,
    EventTerm,
    MetricTerm,
    ObservationGroupConfig,
    ObservationTerm,
    RandomizationConfig,
    Range,
    RewardConfig,
    RewardTerm,
    ScheduleConfig,
    TerminationConfig,
    TerminationTerm,
)
from rsl_rl.config.sim import SimConfig
from rsl_rl.config.terrain import TerrainConfig, TerrainType
from rsl_rl.config.toy import (
    CameraConfig,
    ChoiceConfig,
    FarGoalConfig,
    RecallConfig,
    ReverseConfig,
    TargetSumConfig,
    TokensConfig,
    ToyConfig,
)

__all__ = [
    "MAX_ENVS",
    "CameraConfig",
    "ChoiceConfig",
    "CommandConfig",
    "CommandLimitConfig",
    "CommandTerm",
    "ControlConfig",
    "EventTerm",
    "FarGoalConfig",
    "LeggedRobotConfig",
    "MetricTerm",
    "ObservationGroupConfig",
    "ObservationTerm",
    "RandomizationConfig",
    "Range",
    "RecallConfig",
    "ReverseConfig",
    "RewardConfig",
    "RewardTerm",
    "ScheduleConfig",
    "TargetSumConfig",
    "TaskConfig",
    "TerminationConfig",
    "TerminationTerm",
    "TerrainConfig",
    "TerrainType",
    "TokensConfig",
    "ToyConfig",
]

_TAKEN_NAMES = ("actions", "rewards", "velocities", "states", "targets", "environment", "step")
"""Reserved names that observation groups of a legged robot cannot have."""


@dataclass(frozen=True)
class LeggedRobotConfig(TaskConfig):
    """A legged robot that follows velocity commands."""

    builds: ClassVar[str] = "rsl_rl.tasks.legged_robot:LeggedRobot"

    robot: str = "go2"
    """Name of the robot, or "package.module:object"."""
    num_envs: int = 1024
    """Robots simulated at once; with torchrun on all ranks together."""
    episode_length: float = 20.0
    """Time limit of an episode [s]."""
    sim: SimConfig = field(default_factory=SimConfig)
    terrain: TerrainConfig = field(default_factory=TerrainConfig)
    control: ControlConfig = field(default_factory=ControlConfig)
    commands: CommandConfig = field(default_factory=CommandConfig)
    rewards: RewardConfig = field(default_factory=RewardConfig)
    terminations: TerminationConfig = field(default_factory=TerminationConfig)
    randomization: RandomizationConfig = field(default_factory=RandomizationConfig)
    observations: Dict[str, ObservationGroupConfig] = field(default_factory=dict)
    """Observation groups by name: "policy", "critic" for privileged observations (without it the critic reads the group
    "policy"), and others that policy.actor_groups and policy.critic_groups name."""
    gate: Dict[str, float] = field(default_factory=dict)
    """Success criteria: largest allowed value of each metric of rsl-rl evaluate."""
    metrics: Dict[str, MetricTerm] = field(default_factory=dict)
    """Further metrics of rsl-rl evaluate by name, for the report and for ``gate``."""

    def __post_init__(self):
        super().__post_init__()
        require_counts(self, 1, "num_envs", high=MAX_ENVS)
        step = self.sim.control_dt
        one_step = f"one control step, env.sim.dt * env.sim.decimation = {step:g} s"
        fits = step <= self.episode_length <= 1e6
        require_field(self, "episode_length", fits, f": give a time in seconds, from {one_step}, to 1e+06")
        require(
            step <= self.commands.resampling_time,
            f"env.commands.resampling_time={self.commands.resampling_time} is less than {one_step}; give more",
        )
        taken = [name for name in _TAKEN_NAMES if name in self.observations]
        require(not taken, f"env.observations names a group {', '.join(taken)}, which is taken; use another name")


ACTION_MAPS = ("clip", "tanh", "none")


@dataclass(frozen=True)
class GymnasiumConfig(TaskConfig):
    """Instances of an environment of Gymnasium's registry; needs the package gymnasium."""

    builds: ClassVar[str] = "rsl_rl.env.adapters.gymnasium_vector:make_vec_env"

    id: str = "Pendulum-v1"
    """Id of the environment, such as Pendulum-v1; "package:Name-v0" imports the package that registers it before."""
    num_envs: int = 16
    """Instances at once; with torchrun on all ranks together."""
    settings: Dict[str, Any] = field(default_factory=dict)
    """Arguments of the environment, as gymnasium.make takes them."""
    vectorization: str = "sync"
    """Instances one after the other in this process ('sync'), each in a process of its own ('async'), or the
    environment's own vector implementation ('vector_entry_point')."""
    actions: str = "clip"
    """How actions get into a bounded box: 'clip' or 'tanh' from [-1, 1], or 'none' to pass them on as they are."""

    def __post_init__(self):
        super().__post_init__()
        require_counts(self, 1, "num_envs", high=MAX_ENVS)
        require(self.id != "", "env.id is empty; give the id of an environment, such as Pendulum-v1")
        require_choice(self, ("sync", "async", "vector_entry_point"), "vectorization")
        require_choice(self, ACTION_MAPS, "actions")
