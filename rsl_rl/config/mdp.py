"""Settings of a legged robot's Markov decision process: commands, control, observations, rewards, terminations,
randomization.

Most are terms. A term is a function with its parameters. The key of a term in the config is its name. ``func`` is the
name of a shipped function, or "package.module:function"; empty: the key of the term. ``params`` are the parameters of
the function by name. A parameter without a default that ``params`` lacks is the setting of the same name in the section
of the config, such as ``env.terminations.max_tilt``; a parameter called ``cfg`` is the section itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Dict, Mapping, Optional, Tuple, TypeVar

from typing_extensions import Annotated

from rsl_rl.config.base import (
    Settings,
    require_choice,
    require_counts,
    require_field,
    require_not_negative,
    require_positive,
    require_ranges,
    require_unique,
    require_within,
)
from rsl_rl.config.sim import ActuatorConfig, PerJoint
from rsl_rl.utils.config_io import Check, convert, key_text, short_repr
from rsl_rl.utils.registry import require_patterns

MODES = ("startup", "reset", "interval")
"""When an event happens: once before the first episode, at the start of each episode, or at random times."""

MAX_HISTORY = 1000
"""Largest number of control steps in an observation."""


Section = TypeVar("Section", bound="Terms")


class Term(Settings):
    """Base class of terms."""

    func: str
    """Name of the function; empty: the name of the term."""
    params: Dict[str, Any]
    """Parameters of the function by name."""

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(
            self, "params", {name: _plain(x, f"params.{key_text(name)}") for name, x in self.params.items()}
        )


class Terms(Settings):
    """Base class of settings with terms by name."""

    terms: Dict[str, Any]
    """Terms by name."""

    def with_terms(self: Section, terms: Mapping[str, Any]) -> Section:
        """Return the settings with further terms, and with others in place of those of the same names."""
        return replace(self, terms={**self.terms, **terms})  # type: ignore[type-var]  # derived classes are dataclasses

    def with_params(self: Section, name: str, **params: Any) -> Section:
        """Return the settings with other parameters of a term; an unknown name is a ValueError."""
        if self.terms.get(name) is None:
            raise ValueError(f"there is no term '{name}'; give one of {', '.join(self.terms)}")
        term = self.terms[name]
        return self.with_terms({name: replace(term, params={**term.params, **params})})


def _plain(value: Any, where: str) -> Any:
    """Convert a parameter to what a config file can hold: lists become tuples, numbers must be finite."""
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise ValueError(f"{where} has the key {short_repr(key)}; give names as keys")
        return {key: _plain(item, f"{where}.{key_text(key)}") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(_plain(item, f"{where}[{i}]") for i, item in enumerate(value))
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, float)):
        return convert(type(value), value, where)
    kind = type(value).__name__
    raise ValueError(f"{where}={short_repr(value)} is a {kind}; give numbers, texts, true, false, or lists of them")


@dataclass(frozen=True)
class ScheduleConfig(Settings):
    """A factor that grows, or falls, during the training: of a range about its nominal value, or of commands."""

    steps: int = 0
    """Control steps from ``start`` to ``end``; iterations times runner.num_steps_per_env. 0: ``end`` from the start."""
    start: float = 0.0
    """Factor at the start."""
    end: float = 1.0
    """Factor at the end."""
    tracking: float = 0.0
    """Count only steps while the tracking score, the mean of exp(-error^2 / tracking_sigma) over the last seconds and
    all robots, exceeds this; 0: count all steps. tracking_sigma is that of the first reward that has it, else 0.25."""

    def __post_init__(self):
        super().__post_init__()
        require_counts(self, 0, "steps")
        require_not_negative(self, "start", "end")
        require_within(self, 0, 1, "tracking")


@dataclass(frozen=True)
class ObservationTerm(Term):
    """One term of an observation group."""

    scale: float = 1.0
    """Factor of the term's SI value."""
    noise: float = 0.0
    """Uniform noise in [-noise, noise], in the term's SI unit."""
    history: int = 0
    """Control steps in the observation, the oldest first; 0: the history of the group."""
    func: str = ""
    """Function of rsl_rl.tasks.mdp.observations, or "package.module:function"; empty: the name of the term."""
    params: Dict[str, Any] = field(default_factory=dict)
    """Parameters of the function by name."""
    bias: float = 0.0
    """Uniform error in [-bias, bias] of each number, constant during an episode, in the term's SI unit."""
    delay: Tuple[int, int] = (0, 0)
    """Fewest and most control steps by which the term is late, constant during an episode."""

    def __post_init__(self):
        super().__post_init__()
        require_not_negative(self, "noise", "bias")
        fits = 0 <= self.delay[0] <= self.delay[1] <= MAX_HISTORY
        require_field(self, "delay", fits, f": give two numbers of steps from 0 to {MAX_HISTORY}, the lower one first")
        require_counts(self, 0, "history", high=MAX_HISTORY)


@dataclass(frozen=True)
class ObservationGroupConfig(Terms):
    """An observation group: terms that are concatenated."""

    terms: Dict[str, ObservationTerm]
    """Terms in order; a name is a function of rsl_rl.tasks.mdp.observations, or "package.module:function"."""
    history: int = 1
    """Control steps in the observation, the oldest first, of terms without a history of their own."""

    def __post_init__(self):
        super().__post_init__()
        require_counts(self, 1, "history", high=MAX_HISTORY)


@dataclass(frozen=True)
class RewardTerm(Term):
    """One term of the reward."""

    weight: float
    """Factor of the term; the reward of a control step is the weighted sum times the control period."""
    func: str = ""
    """Function of rsl_rl.tasks.mdp.rewards, or "package.module:function"; empty: the name of the term."""
    params: Dict[str, Any] = field(default_factory=dict)
    """Parameters of the function by name."""


@dataclass(frozen=True)
class TerminationTerm(Term):
    """A condition that ends an episode."""

    func: str = ""
    """Function of rsl_rl.tasks.mdp.terminations, or "package.module:function"; empty: the name of the term."""
    params: Dict[str, Any] = field(default_factory=dict)
    """Parameters of the function by name."""
    time_out: bool = False
    """Whether the episode ends as by its time limit, such as at the end of a motion, and not as a failure."""


@dataclass(frozen=True)
class MetricTerm(Term):
    """A number of each robot whose mean over robots and control steps an evaluation reports."""

    func: str
    """The function, "package.module:function"."""
    params: Dict[str, Any] = field(default_factory=dict)
    """Parameters of the function by name."""


@dataclass(frozen=True)
class CommandTerm(Term):
    """A source of commands."""

    func: str = ""
    """Class of rsl_rl.tasks.mdp.commands, or "package.module:Class"; empty: the name of the term."""
    params: Dict[str, Any] = field(default_factory=dict)
    """Parameters of the class by name."""


@dataclass(frozen=True)
class EventTerm(Term):
    """Something that happens to random robots, such as a change of a parameter or a push."""

    mode: str
    """When it happens: startup, reset (at the start of each episode) or interval (at random times)."""
    period: float = 0.0
    """Mean time between two events of a robot in the mode interval [s]; 0: never."""
    func: str = ""
    """Function or class of rsl_rl.tasks.mdp.events, or "package.module:function"; empty: the name of the term."""
    params: Dict[str, Any] = field(default_factory=dict)
    """Parameters of the function by name."""

    def __post_init__(self):
        super().__post_init__()
        require_choice(self, MODES, "mode")
        require_not_negative(self, "period")
        if self.mode != "interval":
            require_field(self, "period", self.period == 0, f" has no effect in the mode {self.mode}; leave it out")


_IN_ORDER = Check(lambda pair: pair[0] <= pair[1], ": the first number must not exceed the second")

Range = Annotated[Tuple[float, float], _IN_ORDER]
"""Lowest and highest value of a draw."""
Distribution = Annotated[str, Check(lambda name: name in ("uniform", "log_uniform"), ": give uniform or log_uniform")]
PositiveRange = Annotated[Tuple[float, float], _IN_ORDER, Check(lambda pair: pair[0] > 0, ": give positive numbers")]
Positive = Annotated[float, Check(lambda number: number > 0, " must be positive")]
NotNegative = Annotated[float, Check(lambda number: number >= 0, " must not be negative")]
Share = Annotated[float, Check(lambda number: 0 <= number <= 1, " must lie in [0, 1]")]
Links = Annotated[Tuple[str, ...], Check(lambda names: len(set(names)) == len(names), ": name each entry once")]
"""Types of the parameters of terms; what does not fit is refused when the environment is built."""


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
class CommandConfig(Terms):
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
    slow_fraction: float = 0.0
    """Fraction of commands that are scaled by a random factor between 0 and 1. Without it, commands whose three numbers
    are all small are rare."""
    standing_time: float = 0.0
    """Time after which a robot with a command of zero velocity gets a new one [s]; 0: resampling_time."""
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
        require_within(self, 0, 1, "standing_fraction", "slow_fraction", "heading_fraction")
        require_not_negative(self, "standing_time", "dead_zone")
        require_positive(self, "heading_gain")

    @property
    def all_terms(self) -> Dict[str, CommandTerm]:
        """The shipped term "velocity" and ``terms``."""
        return {"velocity": CommandTerm(), **self.terms}


@dataclass(frozen=True)
class ControlConfig(Settings):
    """Joint control: target = default pose + action_scale * action, which actuators follow."""

    section: ClassVar[str] = "env.control"

    default_joint_pos: Optional[PerJoint] = None
    """Default pose, the joint targets of action 0 [rad]: a number, or numbers by name pattern. Other joints keep the
    angle of the robot; None: all do. The trunk starts at the robot's standing height in any pose."""
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
        for name in ("default_joint_pos", "stiffness", "damping", "action_scale"):
            require_patterns(getattr(self, name), f"env.control.{name}")


@dataclass(frozen=True)
class RewardConfig(Terms):
    """The reward: a weighted sum of terms."""

    section: ClassVar[str] = "env.rewards"

    terms: Dict[str, RewardTerm] = field(default_factory=dict)
    """Terms by name; a name is a function of rsl_rl.tasks.mdp.rewards, or "package.module:function"."""
    only_positive: bool = True
    """Clip negative total rewards to zero, so that early falls are not rewarded."""

    def with_weights(self, weights: Mapping[str, float]) -> RewardConfig:
        """Return the settings with other weights; terms keep their parameters, and further ones have none."""
        return self.with_terms(
            {name: replace(self.terms.get(name, RewardTerm(0.0)), weight=x) for name, x in weights.items()}
        )


@dataclass(frozen=True)
class TerminationConfig(Terms):
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
    terms: Dict[str, Optional[TerminationTerm]] = field(default_factory=dict)
    """Further conditions by name. The terms "forbidden_contact" and "tilt" replace the shipped ones; None switches a
    condition off."""

    def __post_init__(self):
        super().__post_init__()
        require_unique(self, "contact_links")
        require_not_negative(self, "contact_force")
        require_positive(self, "max_speed", "max_turning_speed")
        require_field(self, "max_tilt", 0 < self.max_tilt <= 3.1416, " must lie in (0, 3.1416]")

    @property
    def all_terms(self) -> Dict[str, TerminationTerm]:
        """The shipped terms and ``terms``, less those that are switched off."""
        terms = {"forbidden_contact": TerminationTerm(), "tilt": TerminationTerm(), **self.terms}
        return {name: term for name, term in terms.items() if term is not None}


@dataclass(frozen=True)
class RandomizationConfig(Terms):
    """Domain randomisation and disturbances. Equal bounds give a constant value."""

    section: ClassVar[str] = "env.randomization"

    terms: Dict[str, EventTerm] = field(default_factory=lambda: shipped_events())
    """Events by name, in the order in which they happen. Those of :func:`shipped_events` come first; one that is not
    named, and parameters that one does not name, are as there."""

    def __post_init__(self):
        super().__post_init__()
        shipped = shipped_events()
        terms = {**shipped, **self.terms}
        for name, term in terms.items():
            known = shipped[term.func or name].params if (term.func or name) in shipped else {}
            terms[name] = replace(term, params={**known, **term.params})
        object.__setattr__(self, "terms", terms)

    @classmethod
    def none(cls) -> RandomizationConfig:
        """Return settings without randomisation and disturbances."""
        one = (1.0, 1.0)
        model = {"friction": (0.8, 0.8), "payload": (0.0, 0.0), "stiffness_scale": one, "damping_scale": one}
        return cls(
            {
                "model_parameters": EventTerm("startup", params=model),
                "start_state": EventTerm("reset", params={"initial_joint_scale": one, "initial_velocity": 0.0}),
                "push": EventTerm("interval", period=0.0, params={"push_velocity": 0.0}),
            }
        )


def shipped_events() -> Dict[str, EventTerm]:
    """Return the events of every task, with their parameters; see rsl_rl.tasks.mdp.events for what they mean."""
    model = {
        "friction": (0.4, 1.25),
        "payload": (-1.0, 2.0),
        "stiffness_scale": (0.9, 1.1),
        "damping_scale": (0.9, 1.1),
    }
    return {
        "model_parameters": EventTerm("startup", params=model),
        "start_state": EventTerm("reset", params={"initial_joint_scale": (0.7, 1.3), "initial_velocity": 0.4}),
        "push": EventTerm("interval", period=8.0, params={"push_velocity": 0.6, "push_turning": 0.0}),
    }
