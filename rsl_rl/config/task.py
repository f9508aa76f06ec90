"""Settings of the tasks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Dict, Tuple

from rsl_rl.config.base import Config, require
from rsl_rl.config.sim import SimConfig
from rsl_rl.utils.registry import import_object

Range = Tuple[float, float]
"""Lowest and highest value of a uniform draw."""


@dataclass(frozen=True)
class CommandConfig:
    """Velocities that the robot is asked for, in its own heading frame."""

    lin_vel_x: Range = (-1.0, 1.0)
    """Forward velocity [m/s]."""
    lin_vel_y: Range = (-0.5, 0.5)
    """Velocity to the left [m/s]."""
    yaw_rate: Range = (-1.0, 1.0)
    """Turning rate, counter-clockwise [rad/s]."""
    resampling_time: float = 10.0
    """Time after which a new command is drawn [s]."""
    standing_fraction: float = 0.05
    """Share of the commands that ask the robot to stand still."""

    def __post_init__(self):
        _require_ranges(self, "commands", ("lin_vel_x", "lin_vel_y", "yaw_rate"))
        require(
            self.resampling_time > 0,
            f"commands.resampling_time={self.resampling_time}: give a positive time in seconds",
        )
        require(
            0 <= self.standing_fraction <= 1, f"commands.standing_fraction={self.standing_fraction} must lie in [0, 1]"
        )


@dataclass(frozen=True)
class ControlConfig:
    """From actions to joint torques: target = default pose + action_scale * action, followed by a PD loop in the
    engine."""

    stiffness: float = 30.0
    """Proportional gain of every joint [N m/rad]."""
    damping: float = 0.75
    """Derivative gain of every joint [N m s/rad]."""
    action_scale: float = 0.25
    """Joint angle per unit of action [rad]."""
    action_clip: float = 20.0
    """Largest action taken, in either direction."""

    def __post_init__(self):
        for name in ("stiffness", "damping", "action_scale", "action_clip"):
            require(getattr(self, name) > 0, f"control.{name}={getattr(self, name)} must be positive")


@dataclass(frozen=True)
class ObservationTerm:
    """One term of an observation group."""

    scale: float = 1.0
    """Factor on the term's SI value."""
    noise: float = 0.0
    """Half width of the uniform noise, in the term's SI unit."""

    def __post_init__(self):
        require(self.noise >= 0, f"noise={self.noise} of an observation term must not be negative")


@dataclass(frozen=True)
class RewardConfig:
    """What is rewarded. A weight names a function of rsl_rl.tasks.rewards, or "package.module:function" of your own."""

    weights: Dict[str, float] = field(default_factory=dict)
    """Weight of each term; the reward of a control step is the weighted sum times the control period."""
    only_positive: bool = True
    """Clip negative totals to zero, so that an early fall is never the better deal."""
    tracking_sigma: float = 0.25
    """Width of the tracking rewards: exp(-error^2 / sigma), [(m/s)^2] and [(rad/s)^2]."""
    base_height_target: float = 0.3
    """Height of the trunk above the floor that base_height asks for [m]."""
    foot_clearance_target: float = 0.08
    """Height of a swinging foot's centre above the floor that foot_clearance asks for [m]."""
    air_time_target: float = 0.3
    """Time in the air above which a step earns feet_air_time [s]."""
    soft_joint_limit: float = 0.9
    """Share of each joint's range that is free of joint_limits."""
    collision_links: Tuple[str, ...] = ()
    """Links whose touching the floor costs collision."""

    def __post_init__(self):
        require(self.tracking_sigma > 0, f"rewards.tracking_sigma={self.tracking_sigma} must be positive")


@dataclass(frozen=True)
class TerminationConfig:
    """What ends an episode as a failure."""

    contact_links: Tuple[str, ...] = ()
    """Links that must not touch the floor."""
    contact_force: float = 1.0
    """Force from which a link counts as touching [N]."""
    max_tilt: float = 1.0
    """Largest angle between the trunk's and the world's vertical [rad]."""


@dataclass(frozen=True)
class RandomizationConfig:
    """How robots differ from each other and what disturbs them. Equal bounds fix a value."""

    friction: Range = (0.4, 1.25)
    """Sliding friction between feet and floor."""
    payload: Range = (-1.0, 2.0)
    """Mass added to the trunk [kg]."""
    stiffness_scale: Range = (0.9, 1.1)
    """Factor on the proportional gain of each joint."""
    damping_scale: Range = (0.9, 1.1)
    """Factor on the derivative gain of each joint."""
    push_interval: float = 8.0
    """Mean time between pushes [s]; 0 for none."""
    push_velocity: float = 0.6
    """Largest change of the horizontal velocity by a push, in x and in y [m/s]."""
    initial_joint_scale: Range = (0.7, 1.3)
    """Factor on the default joint angles at the start of an episode."""
    initial_velocity: float = 0.4
    """Largest linear [m/s] and angular [rad/s] velocity of the trunk at the start, per axis."""

    def __post_init__(self):
        _require_ranges(
            self, "randomization", ("friction", "payload", "stiffness_scale", "damping_scale", "initial_joint_scale")
        )
        for name in ("stiffness_scale", "damping_scale"):
            require(getattr(self, name)[0] > 0, f"randomization.{name}={getattr(self, name)} must be positive")
        for name in ("push_velocity", "initial_velocity"):
            require(getattr(self, name) >= 0, f"randomization.{name}={getattr(self, name)} must not be negative")
        require(self.friction[0] > 0, f"randomization.friction={self.friction}: friction must be positive")
        require(
            self.push_interval >= 0,
            f"randomization.push_interval={self.push_interval}: give a time in seconds, or 0 for none",
        )

    @classmethod
    def none(cls) -> RandomizationConfig:
        """Return the settings under which every robot is the model as it stands, undisturbed."""
        one = (1.0, 1.0)
        return cls((0.8, 0.8), (0.0, 0.0), one, one, 0.0, 0.0, one, 0.0)


class TaskConfig(Config):
    """What every task can do: build its environment."""

    num_envs: int

    def build(self, device: str = "cpu", seed: int = 0) -> Any:
        """Return the VecEnv with its tensors on ``device`` and its random draws from ``seed``."""
        return import_object(self.builds)(self, device=device, seed=seed)


@dataclass(frozen=True)
class LeggedRobotConfig(TaskConfig):
    """A legged robot that follows velocity commands."""

    builds: ClassVar[str] = "rsl_rl.tasks.legged_robot:LeggedRobot"

    robot: str = "go2"
    """Which robot."""
    num_envs: int = 1024
    """Robots simulated at once."""
    episode_length: float = 20.0
    """Time limit of an episode [s]."""
    sim: SimConfig = field(default_factory=SimConfig)
    control: ControlConfig = field(default_factory=ControlConfig)
    commands: CommandConfig = field(default_factory=CommandConfig)
    rewards: RewardConfig = field(default_factory=RewardConfig)
    terminations: TerminationConfig = field(default_factory=TerminationConfig)
    randomization: RandomizationConfig = field(default_factory=RandomizationConfig)
    policy_observations: Dict[str, ObservationTerm] = field(default_factory=dict)
    """Terms of the group "policy" in order; names are functions of rsl_rl.tasks.observations."""
    critic_observations: Dict[str, ObservationTerm] = field(default_factory=dict)
    """Terms of the group "critic" in order; empty: the critic sees what the policy sees."""
    gate: Dict[str, float] = field(default_factory=dict)
    """Largest value of each number of scripts/evaluate.py that a finished policy may have."""

    def __post_init__(self):
        require(self.num_envs >= 1, f"num_envs={self.num_envs}: give a whole number of at least 1")
        require(self.episode_length > 0, f"episode_length={self.episode_length}: give a positive time in seconds")


@dataclass(frozen=True)
class ToyConfig(TaskConfig):
    """A point on a line that is to be brought to the origin: closed form, no physics, solved in seconds."""

    builds: ClassVar[str] = "rsl_rl.tasks.toy:PointEnv"

    num_envs: int = 64
    """Environments at once."""
    episode_steps: int = 32
    """Control steps of an episode."""

    def __post_init__(self):
        require(self.num_envs >= 1, f"num_envs={self.num_envs}: give a whole number of at least 1")
        require(self.episode_steps >= 1, f"episode_steps={self.episode_steps}: give a whole number of at least 1")


@dataclass(frozen=True)
class RecallConfig(ToyConfig):
    """A sign that is shown once, at the start of an episode, and asked for until its end: solved by memory alone."""

    builds: ClassVar[str] = "rsl_rl.tasks.toy:RecallEnv"

    episode_steps: int = 12
    """Control steps of an episode."""


def _require_ranges(cfg: object, section: str, names: Tuple[str, ...]) -> None:
    for name in names:
        low, high = getattr(cfg, name)
        require(low <= high, f"{section}.{name}=({low}, {high}): the first number must not exceed the second")
