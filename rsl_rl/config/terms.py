"""Settings of one term of a task: an observation, a reward, a termination, a command or an event.

A term is a function with its parameters. The key of a term in the config is its name. ``func`` is the name of a shipped
function, or "package.module:function"; empty: the key of the term. ``params`` are the parameters of the function by
name. A parameter without a default that ``params`` lacks is the setting of the same name in the section of the config,
such as ``env.terminations.max_tilt``; a parameter called ``cfg`` is the section itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Dict, Mapping, Tuple, TypeVar

from rsl_rl.config.base import (
    Settings,
    require_choice,
    require_counts,
    require_field,
    require_not_negative,
    require_positive,
    require_within,
)
from rsl_rl.utils.config_io import convert, key_text, short_repr

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
        """Return the settings with other parameters of a term."""
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
    all robots, exceeds this; 0: count all steps."""
    tracking_sigma: float = 0.25
    """Width of the tracking score [(m/s)^2] and [(rad/s)^2]."""

    def __post_init__(self):
        super().__post_init__()
        require_counts(self, 0, "steps")
        require_not_negative(self, "start", "end")
        require_within(self, 0, 1, "tracking")
        require_positive(self, "tracking_sigma")


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
    """A condition that ends an episode as a failure."""

    func: str = ""
    """Function of rsl_rl.tasks.mdp.terminations, or "package.module:function"; empty: the name of the term."""
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
