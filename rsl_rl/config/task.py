"""Settings of the tasks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Dict

from rsl_rl.config.base import Config, require, require_counts, require_field
from rsl_rl.config.mdp import (
    CommandConfig,
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
from rsl_rl.utils.registry import import_object, suggest

__all__ = [
    "MAX_ENVS",
    "CameraConfig",
    "ChoiceConfig",
    "CommandConfig",
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

MAX_ENVS = 10_000_000
"""Largest number of environments at once."""


_TAKEN_NAMES = ("policy", "critic", "actions", "rewards", "velocities", "states", "targets", "environment", "step")
"""Reserved names that further observation groups of a legged robot cannot have."""


class TaskConfig(Config):
    """Base class of tasks: a config that builds an environment."""

    section: ClassVar[str] = "env"

    num_envs: int

    def build(self, device: str = "cpu", seed: int = 0) -> Any:
        """Return the VecEnv on ``device``, with random numbers from ``seed``."""
        return import_object(self.builds)(self, device=device, seed=seed)


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


@dataclass(frozen=True)
class ToyConfig(TaskConfig):
    """A point on a line that must move to the origin: no physics, solved in seconds."""

    builds: ClassVar[str] = "rsl_rl.tasks.toy:PointEnv"

    num_envs: int = 64
    """Environments at once; with torchrun on all ranks together."""
    episode_steps: int = 48
    """Control steps of an episode."""

    def __post_init__(self):
        super().__post_init__()
        require_counts(self, 1, "num_envs", high=MAX_ENVS)
        require_counts(self, 1, "episode_steps")


@dataclass(frozen=True)
class RecallConfig(ToyConfig):
    """A sign that is observed in the first step only and rewarded in all steps: a task for policies with memory."""

    builds: ClassVar[str] = "rsl_rl.tasks.toy:RecallEnv"

    episode_steps: int = 12
    """Control steps of an episode."""


@dataclass(frozen=True)
class ChoiceConfig(ToyConfig):
    """Questions with several answers, of which one is right: a task for discrete actions."""

    builds: ClassVar[str] = "rsl_rl.tasks.toy:ChoiceEnv"

    num_choices: int = 4
    """Possible answers."""

    def __post_init__(self):
        super().__post_init__()
        require_counts(self, 2, "num_choices", high=1000)


@dataclass(frozen=True)
class CameraConfig(ToyConfig):
    """The point of ToyConfig, seen by a camera."""

    builds: ClassVar[str] = "rsl_rl.tasks.toy:CameraEnv"


@dataclass(frozen=True)
class FarGoalConfig(ToyConfig):
    """A row of rooms with a reward in the last one only: a task for exploration."""

    builds: ClassVar[str] = "rsl_rl.tasks.toy:FarGoalEnv"

    num_envs: int = 128
    """Environments at once; with torchrun on all ranks together."""
    episode_steps: int = 48
    """Control steps of an episode."""
    num_rooms: int = 24
    """Rooms of the row."""
    num_doors: int = 4
    """Doors of each room, of which one leads on."""
    layout_seed: int = 0
    """Seed of which door of each room that is."""

    def __post_init__(self):
        super().__post_init__()
        require_counts(self, 2, "num_rooms", "num_doors", high=1000)
        reachable = self.episode_steps >= self.num_rooms
        require_field(self, "episode_steps", reachable, f" ends an episode before room {self.num_rooms}; raise it")


@dataclass(frozen=True)
class TokensConfig(ToyConfig):
    """Answers of several tokens, rewarded when they are complete."""

    num_envs: int = 256
    """Environments at once."""
    episode_steps: int = 4
    """Tokens of an answer."""
    num_tokens: int = 5
    """Tokens to choose from."""

    def __post_init__(self):
        super().__post_init__()
        require_counts(self, 2, "num_tokens", high=1000)
        require_counts(self, 1, "episode_steps", high=1000)


@dataclass(frozen=True)
class ReverseConfig(TokensConfig):
    """A sequence of tokens that is to be written backwards."""

    builds: ClassVar[str] = "rsl_rl.tasks.toy:ReverseEnv"


@dataclass(frozen=True)
class TargetSumConfig(TokensConfig):
    """A number that the digits of the answer must add up to."""

    builds: ClassVar[str] = "rsl_rl.tasks.toy:TargetSumEnv"
