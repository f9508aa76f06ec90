"""Settings of the tasks without physics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rsl_rl.config.base import MAX_ENVS, TaskConfig, require_counts, require_field


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
        fits = f" ends an episode before room {self.num_rooms}; raise it, or lower num_rooms"
        require_field(self, "episode_steps", reachable, fits)


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
