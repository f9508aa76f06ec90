"""Settings of the tasks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Dict

from rsl_rl.config.base import MAX_ENVS, TaskConfig, require, require_counts, require_field
from rsl_rl.config.mdp import (
    CommandConfig,
    CommandLimitConfig,
    CommandTerm,
    ControlConfig,
    EventTerm,
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
from rsl_rl.config.terms import MAX_HISTORY
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
from rsl_rl.utils.registry import suggest

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

_TAKEN_NAMES = ("policy", "critic", "actions", "rewards", "velocities", "states", "targets", "environment", "step")
"""Reserved names that further observation groups of a legged robot cannot have."""


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
    policy_observations: Dict[str, ObservationTerm] = field(default_factory=dict)
    """Terms of the group "policy" in order; a name is a function of rsl_rl.tasks.mdp.observations, or
    "package.module:function"."""
    critic_observations: Dict[str, ObservationTerm] = field(default_factory=dict)
    """Terms of the group "critic" in order; empty: the critic reads the group "policy"."""
    more_observations: Dict[str, Dict[str, ObservationTerm]] = field(default_factory=dict)
    """Further observation groups by name, each with its terms in order."""
    observation_history: Dict[str, int] = field(default_factory=dict)
    """Control steps in the observations of a group, the oldest first; 1 for a group that is not named."""
    gate: Dict[str, float] = field(default_factory=dict)
    """Success criteria: largest allowed value of each metric of scripts/evaluate.py."""

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
        taken = [name for name in _TAKEN_NAMES if name in self.more_observations]
        require(not taken, f"env.more_observations names a group {', '.join(taken)}, which is taken; use another name")
        groups = self.observation_groups
        for name, history in self.observation_history.items():
            unknown = f"env.observation_history names the group '{name}'"
            empty = "; env.critic_observations has no terms" if name == "critic" else ""
            require(name in groups, f"{unknown}{empty}; known: {', '.join(groups)}.{suggest(name, groups)}")
            fits = 1 <= history <= MAX_HISTORY
            require(fits, f"env.observation_history.{name}={history}: give a number of steps from 1 to {MAX_HISTORY}")

    @property
    def observation_groups(self) -> Dict[str, Dict[str, ObservationTerm]]:
        """The terms of each group by name: "policy", "critic" if it has terms, and further groups."""
        critic = {"critic": self.critic_observations} if self.critic_observations else {}
        return {"policy": self.policy_observations, **critic, **self.more_observations}
