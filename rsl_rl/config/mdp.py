"""Settings of a legged robot's Markov decision process: commands, control, observations, rewards, terminations,
randomization."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Dict, Tuple, Union

from rsl_rl.config.actuators import ActuatorConfig, PerJoint
from rsl_rl.config.base import (
    Settings,
    require,
    require_field,
    require_not_negative,
    require_positive,
    require_ranges,
    require_unique,
    require_within,
)
from rsl_rl.config.terms import CommandTerm, EventTerm, ObservationTerm, RewardTerm, ScheduleConfig, TerminationTerm
from rsl_rl.utils.by_name import require_patterns

__all__ = [
    "CommandConfig",
    "CommandLimitConfig",
    "CommandTerm",
    "ControlConfig",
    "EventTerm",
    "ObservationTerm",
    "PerJoint",
    "RandomizationConfig",
    "Range",
    "RewardConfig",
    "RewardTerm",
    "ScheduleConfig",
    "TerminationConfig",
    "TerminationTerm",
]

Range = Tuple[float, float]
"""Lowest and highest value of a uniform draw."""


@dataclass(frozen=True)
class CommandLimitConfig(Settings):
    """Limits of the acceleration with which the command that the policy reads follows the requested velocity.

    The limits are a part of the policy: evaluations, videos, play and the exported policy have them, and tracking
    errors are those of the requested velocity. Trainings do not have them, since a command that changes at once is
    harder to follow.
    """

    section: ClassVar[str] = "env.commands.limit"

    max_lin_acc: float = 0.0
    """Largest change of the velocity in x and in y [m/s^2]; 0: no limit."""
    max_yaw_acc: float = 0.0
    """Largest change of the yaw rate [rad/s^2]; 0: no limit."""
    enabled: bool = False
    """Whether the limits hold in the simulation. Evaluations, videos and play set it."""

    def __post_init__(self):
        super().__post_init__()
        require_not_negative(self, "max_lin_acc", "max_yaw_acc")

    @property
    def limits(self) -> bool:
        """Whether there is a limit."""
        return self.max_lin_acc > 0 or self.max_yaw_acc > 0


@dataclass(frozen=True)
class CommandConfig(Settings):
    """Velocity commands, in the base frame."""

    section: ClassVar[str] = "env.commands"

    lin_vel_x: Range = (-1.0, 1.0)
    """Forward velocity [m/s]."""
    lin_vel_y: Range = (-0.5, 0.5)
    """Velocity to the left [m/s]."""
    yaw_rate: Range = (-1.0, 1.0)
    """Turning rate, counter-clockwise [rad/s]."""
    resampling_time: float = 10.0
    """Time after which a new command is drawn [s]."""
    standing_fraction: float = 0.05
    """Fraction of commands with zero velocity."""
    dead_zone: float = 0.1
    """Size of a command [m/s, rad/s] up to which the robot is to stand: the terms that reward steps are 0 there, and
    stand_still counts."""
    heading_fraction: float = 0.0
    """Fraction of commands that are a heading: their yaw rate is heading_gain times the angle to a random heading."""
    heading_gain: float = 0.5
    """Yaw rate per angle to the heading [1/s], within the range of yaw_rate."""
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    """Factor of the ranges, which may change during the training; the whole ranges by default."""
    limit: CommandLimitConfig = field(default_factory=CommandLimitConfig)
    """How fast the command may change outside of training."""
    terms: Dict[str, CommandTerm] = field(default_factory=dict)
    """Further commands by name. The term "velocity" replaces the source of velocity commands."""

    def __post_init__(self):
        super().__post_init__()
        require_ranges(self, "lin_vel_x", "lin_vel_y", "yaw_rate")
        require_positive(self, "resampling_time")
        require_within(self, 0, 1, "standing_fraction", "heading_fraction")
        require_not_negative(self, "dead_zone")
        require_positive(self, "heading_gain")

    @property
    def all_terms(self) -> Dict[str, CommandTerm]:
        """The shipped term "velocity" and ``terms``."""
        return {"velocity": CommandTerm(), **self.terms}


@dataclass(frozen=True)
class ControlConfig(Settings):
    """Joint control: target = default pose + action_scale * action, which actuators follow."""

    section: ClassVar[str] = "env.control"

    stiffness: PerJoint = 30.0
    """Proportional gain of the joints [N m/rad]; a number, or numbers by name pattern."""
    damping: PerJoint = 0.75
    """Derivative gain of the joints [N m s/rad]; a number, or numbers by name pattern."""
    action_scale: PerJoint = 0.25
    """Joint angle per unit of action [rad]; a number, or numbers by name pattern."""
    action_clip: float = 20.0
    """Actions are clipped to [-action_clip, action_clip]."""
    actuator: ActuatorConfig = field(default_factory=ActuatorConfig)
    """How joint targets become torques: ActuatorConfig (ideal PD), DCMotorConfig or ActuatorNetworkConfig."""

    def __post_init__(self):
        super().__post_init__()
        require_positive(self, "stiffness", "damping", "action_scale", "action_clip")
        for name in ("stiffness", "damping", "action_scale"):
            require_patterns(getattr(self, name), f"env.control.{name}")


@dataclass(frozen=True)
class RewardConfig(Settings):
    """Reward terms; a name is a function of rsl_rl.tasks.mdp.rewards, or "package.module:function"."""

    section: ClassVar[str] = "env.rewards"

    weights: Dict[str, Union[float, RewardTerm]] = field(default_factory=dict)
    """Weight of each term, or a RewardTerm with weight, function and parameters; the reward of a control step is the
    weighted sum times the control period."""
    only_positive: bool = True
    """Clip negative total rewards to zero, so that early falls are not rewarded."""
    tracking_sigma: float = 0.25
    """Width of the tracking rewards: exp(-error^2 / sigma), [(m/s)^2] and [(rad/s)^2]."""
    base_height_target: float = 0.3
    """Target height of the trunk above the floor of the term base_height [m]."""
    foot_clearance_target: float = 0.08
    """Target height of a swing foot's centre above the floor of the term foot_clearance [m]."""
    air_time_target: float = 0.3
    """Duration of a swing above which the term feet_air_time is positive [s]."""
    soft_joint_limit: float = 0.9
    """Fraction of each joint's range within which the term joint_limits is zero."""
    collision_links: Tuple[str, ...] = ()
    """Links whose contact with the floor counts in the term collision."""

    def __post_init__(self):
        super().__post_init__()
        require_positive(self, "tracking_sigma")
        require_not_negative(self, "base_height_target", "foot_clearance_target", "air_time_target")
        require_within(self, 0, 1, "soft_joint_limit")
        require_unique(self, "collision_links")
        collision = self.all_terms.get("collision", RewardTerm(0.0))
        require(
            bool(self.collision_links) or not collision.weight or "collision_links" in collision.params,
            f"env.rewards.weights.collision={self.weights.get('collision')} needs links; name some in "
            "env.rewards.collision_links, or remove the weight",
        )

    @property
    def all_terms(self) -> Dict[str, RewardTerm]:
        """``weights`` with a RewardTerm for each number."""
        return {name: x if isinstance(x, RewardTerm) else RewardTerm(x) for name, x in self.weights.items()}


@dataclass(frozen=True)
class TerminationConfig(Settings):
    """Terminations: conditions that end an episode as a failure."""

    section: ClassVar[str] = "env.terminations"

    contact_links: Tuple[str, ...] = ()
    """Links whose contact with the floor ends the episode."""
    contact_force: float = 1.0
    """Contact force above which a link touches the floor [N]."""
    max_tilt: float = 1.0
    """Largest angle between the trunk's and the world's vertical [rad]."""
    max_speed: float = 50.0
    """Limit of the trunk's velocity [m/s]; a faster robot is broken: it is reset, and the transition is masked."""
    max_turning_speed: float = 500.0
    """Limit of angular velocity of the trunk and of joint velocities [rad/s], with the same effect."""
    max_reward: float = 1e6
    """Limit of the absolute reward, with the same effect."""
    max_observation: float = 1e6
    """Limit of absolute observations, with the same effect."""
    terms: Dict[str, TerminationTerm] = field(default_factory=dict)
    """Further conditions by name. The terms "forbidden_contact" and "tilt" replace the shipped ones."""

    def __post_init__(self):
        super().__post_init__()
        require_unique(self, "contact_links")
        require_not_negative(self, "contact_force")
        require_positive(self, "max_speed", "max_turning_speed", "max_reward", "max_observation")
        require_field(self, "max_tilt", 0 < self.max_tilt <= 3.1416, " must lie in (0, 3.1416]")

    @property
    def all_terms(self) -> Dict[str, TerminationTerm]:
        """The shipped terms and ``terms``."""
        return {"forbidden_contact": TerminationTerm(), "tilt": TerminationTerm(), **self.terms}


@dataclass(frozen=True)
class RandomizationConfig(Settings):
    """Domain randomisation and disturbances. Equal bounds give a constant value."""

    section: ClassVar[str] = "env.randomization"

    friction: Range = (0.4, 1.25)
    """Sliding friction between feet and floor."""
    payload: Range = (-1.0, 2.0)
    """Mass added to the trunk [kg]."""
    stiffness_scale: Range = (0.9, 1.1)
    """Factor of the proportional gain of each joint."""
    damping_scale: Range = (0.9, 1.1)
    """Factor of the derivative gain of each joint."""
    push_interval: float = 8.0
    """Mean time between pushes [s]; 0 for none."""
    push_velocity: float = 0.6
    """Largest change of the horizontal velocity by a push, in x and in y [m/s]."""
    push_turning: float = 0.0
    """Largest change of the angular velocity by a push, about each axis of the base frame [rad/s]."""
    initial_joint_scale: Range = (0.7, 1.3)
    """Factor of the default joint angles at the start of an episode."""
    initial_velocity: float = 0.4
    """Largest linear [m/s] and angular [rad/s] velocity of the trunk at the start, per axis."""
    terms: Dict[str, EventTerm] = field(default_factory=dict)
    """Further events by name, after the shipped ones. The terms "model_parameters", "start_state" and "push" replace
    the shipped ones."""

    def __post_init__(self):
        super().__post_init__()
        require_ranges(self, "friction", "payload", "stiffness_scale", "damping_scale", "initial_joint_scale")
        for name in ("friction", "stiffness_scale", "damping_scale"):
            require_field(self, name, getattr(self, name)[0] > 0, ": both numbers must be positive")
        require_not_negative(self, "push_velocity", "push_turning", "initial_velocity")
        require_field(self, "push_interval", self.push_interval >= 0, ": give a time in seconds, or 0 for none")

    @property
    def all_terms(self) -> Dict[str, EventTerm]:
        """The shipped terms and ``terms``."""
        shipped = {"model_parameters": EventTerm("startup"), "start_state": EventTerm("reset")}
        if self.push_interval > 0:
            shipped["push"] = EventTerm("interval", self.push_interval)
        return {**shipped, **self.terms}

    @classmethod
    def none(cls) -> RandomizationConfig:
        """Return settings without randomisation and disturbances."""
        one = (1.0, 1.0)
        return cls(
            friction=(0.8, 0.8),
            payload=(0.0, 0.0),
            stiffness_scale=one,
            damping_scale=one,
            push_interval=0.0,
            push_velocity=0.0,
            initial_joint_scale=one,
            initial_velocity=0.0,
        )
