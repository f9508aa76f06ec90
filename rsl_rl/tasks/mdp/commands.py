"""Sources of commands: classes that draw the command of each robot.

To add a source, derive a class from :class:`CommandSource` and name it in ``env.commands.terms``. Its command is
``state.commands[name]``, [N, k], for observations and rewards. The source of the name "velocity" gives
``state.command``: vx, vy [m/s] and yaw rate [rad/s] in the base frame.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, Dict, List, Mapping, Sequence, Tuple, Type, Union

import torch
from torch import Tensor

from rsl_rl.config.mdp import CommandConfig, CommandLimitConfig, Positive, PositiveRange, Range, ScheduleConfig
from rsl_rl.motion.clip import Frame
from rsl_rl.tasks.mdp.context import Schedule, TaskContext
from rsl_rl.utils.binding import bind_named, settings_of
from rsl_rl.utils.tensors import Stored, Uniform, none_on_cpu, yaw_of

FOREVER = 1e9
"""Time between two commands that no episode reaches [s]."""


class CommandSource(Stored, ABC):
    """Draw the commands of N robots, [N, k], at the start of each episode and again after a fixed time.

    ``ranges`` are the lowest and highest value of each of the k numbers.
    """

    stored = ("_age",)  # in control steps

    def __init__(self, task: TaskContext, ranges: Sequence[Range], resampling_time: float):
        self.ranges = tuple(ranges)
        self._steps = max(1, round(resampling_time / task.control_dt))
        self._age = torch.zeros(task.num_envs, dtype=torch.long, device=task.device)

    @property
    def final_ranges(self) -> Tuple[Range, ...]:
        """The ranges at the end of the training."""
        return self.ranges

    @abstractmethod
    def sample(self) -> Tensor:
        """Return new commands of all robots, [N, k]; it is called in every step."""

    def follow(self, command: Tensor) -> None:
        """Change commands [N, k] in every step, in place, after new ones were drawn."""

    def log(self) -> Dict[str, Tensor]:
        """Return what the source reports of its ranges, for the log."""
        return {}

    def describe(self) -> Dict[str, Any]:
        """Return what a robot needs to know to give such commands, for the description of an exported policy."""
        return {}

    def readings(self, command: Tensor) -> Dict[str, Tensor]:
        """Return what a robot's controller is given in a control step beside the velocity command [N, k] each, by the
        names of the controller's arguments; ``command`` is that of the source [N, k]."""
        return {}

    @property
    def clips(self) -> Tuple[str, ...]:
        """Names of the reference motions that the source plays."""
        return ()

    def sequences(self, loop_time: float) -> List[Frame]:
        """Return each of ``clips``, one frame for each control step from its first on; loops for ``loop_time`` [s]."""
        return []

    def play_from_start(self) -> None:
        """Let each robot play a clip from its first frame on in its next episodes, one clip after the other."""

    def recorded(self) -> Dict[str, Tensor]:
        """Return what recordings of robots hold of the source in a step beside the command, [N, ...] each."""
        return {}

    def due(self) -> Tensor:
        """Count one control step; return which robots need a new command, [N] bool."""
        self._age += 1
        return self._age >= self._steps

    def draw(self, command: Tensor, mask: Tensor) -> None:
        """Write new commands of the robots marked in mask [N] to command [N, k]."""
        drawn = self.sample()
        if none_on_cpu(mask):
            return
        torch.where(mask.unsqueeze(1), drawn, command, out=command)
        self._age.masked_fill_(mask, 0)


class VelocitySource(CommandSource):
    """Base class of what draws vx, vy [m/s] and yaw rate [rad/s] from ranges that a schedule scales."""

    def __init__(self, task: TaskContext, ranges: Sequence[Range], resampling_time: float, schedule: ScheduleConfig):
        super().__init__(task, ranges, resampling_time)
        self._schedule = Schedule(task, schedule) if schedule != ScheduleConfig() else None
        self._final_factors = [schedule.end] * 3

    @property
    def final_ranges(self) -> Tuple[Range, ...]:
        return tuple((factor * low, factor * high) for factor, (low, high) in zip(self._final_factors, self.ranges))

    def _scaled(self, velocity: Tensor) -> Tensor:
        """Return velocities [..., 3] with the factor of the schedule."""
        return velocity if self._schedule is None else velocity * self._schedule.factor

    def log(self) -> Dict[str, Tensor]:
        return {} if self._schedule is None else {"Schedule/velocity_commands": self._schedule.factor}


class VelocityCommands(VelocitySource):
    """Draw vx, vy [m/s] and yaw rate [rad/s] uniformly from their ranges; some commands are zero, some are scaled by a
    random factor.

    Some are a heading: the yaw rate is a gain times the angle to it. A schedule scales the ranges.
    """

    def __init__(
        self,
        task: TaskContext,
        *,
        lin_vel_x: Range,
        lin_vel_y: Range,
        yaw_rate: Range,
        resampling_time: float,
        standing_fraction: float,
        slow_fraction: float,
        standing_time: float,
        heading_fraction: float,
        heading_gain: float,
        schedule: ScheduleConfig,
    ):
        super().__init__(task, (lin_vel_x, lin_vel_y, yaw_rate), resampling_time, schedule)
        heading = ((-math.pi, math.pi), (0.0, 1.0)) if heading_fraction else ()
        self.stored = ("_age", "_heading", "_schedule") if heading_fraction else ("_age", "_schedule")
        self._draw = Uniform(task.num_envs, (*self.ranges, (0.0, 1.0), *heading), task.generator)
        self._standing_fraction, self._slow_fraction = standing_fraction, slow_fraction
        self._heading_fraction, self._gain = heading_fraction, heading_gain
        self._standing_steps = max(1, round((standing_time or resampling_time) / task.control_dt))
        self._sim, self._state = task.sim, task.state
        self._heading = torch.full((task.num_envs,), math.nan, device=task.device)  # [rad]; NaN: a yaw rate
        if heading_fraction:  # turning to a heading has the whole range
            self._final_factors[2] = max(schedule.end, 1.0)

    def sample(self) -> Tensor:
        velocity, chance, *drawn = self._draw().tensor_split((3, 4, 5), dim=1)
        velocity = self._scaled(velocity)
        stands = chance < self._standing_fraction
        if self._slow_fraction:  # the largest chances are of slow commands, and their rest is the factor
            velocity = velocity * ((1 - chance) / self._slow_fraction).clamp(max=1.0)
        if self._heading_fraction:
            turns = (drawn[1] < self._heading_fraction) & ~stands
            self._drawn_heading = drawn[0].masked_fill(~turns, math.nan)[:, 0]
        return velocity.masked_fill(stands, 0.0)

    def due(self) -> Tensor:
        super().due()
        stands = (self._state.requested_command == 0).all(dim=1)
        return self._age >= torch.where(stands, self._standing_steps, self._steps)

    def draw(self, command: Tensor, mask: Tensor) -> None:
        super().draw(command, mask)
        if self._heading_fraction:
            self._heading = torch.where(mask, self._drawn_heading, self._heading)

    def follow(self, command: Tensor) -> None:
        if not self._heading_fraction:
            return
        angle = (self._heading - yaw_of(self._sim.root_quat) + math.pi) % (2 * math.pi) - math.pi
        rate = (self._gain * angle).clamp(*self.ranges[2])
        command[:, 2] = torch.where(self._heading.isnan(), command[:, 2], rate)


class JoystickCommands(VelocitySource):
    """Draw velocities as a person at a joystick gives them, each for a random time within ``period`` [s].

    A command is of one of the :attr:`KINDS`, all equally likely: a velocity from the ranges, a stop, a turn on the
    spot, the opposite of the last command, or a single small component, from ``smallest`` [m/s, rad/s] to a fifth of
    the range. A schedule scales the ranges.
    """

    KINDS: Tuple[str, ...] = ("velocity", "stop", "turn", "reversal", "small")
    stored = ("_age", "_duration", "kind", "_schedule")

    def __init__(
        self,
        task: TaskContext,
        *,
        lin_vel_x: Range,
        lin_vel_y: Range,
        yaw_rate: Range,
        schedule: ScheduleConfig,
        period: PositiveRange = (1.0, 5.0),
        smallest: Positive = 0.05,
    ):
        super().__init__(task, (lin_vel_x, lin_vel_y, yaw_rate), period[1], schedule)
        unit = (0.0, 1.0)
        steps = (period[0] / task.control_dt, period[1] / task.control_dt)
        self._draw = Uniform(task.num_envs, (*self.ranges, unit, unit, unit, steps), task.generator)
        self._low, self._high = torch.tensor(self.ranges, device=task.device).unbind(dim=1)  # [3] each
        self._smallest = smallest
        self._duration = torch.zeros(task.num_envs, device=task.device)  # [N] of the current command, in control steps
        self.kind = torch.zeros(task.num_envs, dtype=torch.long, device=task.device)  # [N] index of KINDS

    def due(self) -> Tensor:
        super().due()
        return self._age >= self._duration

    def sample(self) -> Tensor:
        velocity, kind, axis, size, duration = self._draw().tensor_split((3, 4, 5, 6), dim=1)
        self._drawn_duration = duration[:, 0]
        self._drawn_kind = (kind[:, 0] * len(self.KINDS)).to(torch.long).clamp_(0, len(self.KINDS) - 1)
        stop, turn, reversal, small = (self._drawn_kind == kind for kind in range(1, len(self.KINDS)))
        largest = torch.where(velocity < 0, self._low, self._high).abs() / 5
        component = torch.lerp(torch.full_like(largest, self._smallest), largest, size).copysign(velocity)
        others = (axis * 3).to(torch.long) != torch.arange(3, device=axis.device)
        component = component.clamp(self._low, self._high).masked_fill(others, 0.0)
        velocity = torch.where(small.unsqueeze(1), component, velocity)
        velocity[:, :2].masked_fill_(turn.unsqueeze(1), 0.0)
        velocity = self._scaled(velocity)
        reversal &= (self._last != 0).any(dim=1)  # the opposite of a stop is any velocity
        opposite = (-self._last).clamp(self._scaled(self._low), self._scaled(self._high))
        return torch.where(reversal.unsqueeze(1), opposite, velocity).masked_fill(stop.unsqueeze(1), 0.0)

    def draw(self, command: Tensor, mask: Tensor) -> None:
        self._last = command
        super().draw(command, mask)
        self.kind = torch.where(mask, self._drawn_kind, self.kind)
        self._duration = torch.where(mask, self._drawn_duration, self._duration)


class Clock(CommandSource):
    """Base class of clocks: the command follows from a phase in cycles, which is random at the start of each
    episode."""

    stored = ("_age", "_phase")

    def __init__(self, task: TaskContext, numbers: int):
        super().__init__(task, ((-1.0, 1.0),) * numbers, FOREVER)
        self._random = Uniform(task.num_envs, ((0.0, 1.0),), task.generator)
        self._phase = torch.zeros(task.num_envs, device=task.device)  # [N] in cycles

    @abstractmethod
    def at(self, phase: Tensor) -> Tensor:
        """Return the command [N, k] for phases [N]."""

    @abstractmethod
    def cycles_per_step(self) -> Union[float, Tensor]:
        """Return by how much the phases grow in a control step, [N] or one number."""

    def sample(self) -> Tensor:
        self._drawn = self._random()[:, 0]
        return self.at(self._drawn)

    def draw(self, command: Tensor, mask: Tensor) -> None:
        super().draw(command, mask)
        self._phase = torch.where(mask, self._drawn, self._phase)

    def due(self) -> Tensor:
        self._phase = (self._phase + self.cycles_per_step()) % 1.0
        return super().due()

    def follow(self, command: Tensor) -> None:
        command.copy_(self.at(self._phase))


class GaitClock(Clock):
    """Sine and cosine of a phase that turns once in ``period`` [s], for the observation gait_clock and the reward
    gait."""

    def __init__(self, task: TaskContext, *, period: float, dead_zone: float):
        super().__init__(task, 2)
        if period < 2 * task.control_dt:
            raise ValueError(f"the gait clock has period={period} s; give at least {2 * task.control_dt:g} s")
        self._period, self._dead_zone, self._step = period, dead_zone, task.control_dt / period

    def at(self, phase: Tensor) -> Tensor:
        return _sine_and_cosine(phase)

    def cycles_per_step(self) -> float:
        return self._step

    def describe(self) -> Dict[str, float]:
        return {"period": self._period, "dead_zone": self._dead_zone}

    def readings(self, command: Tensor) -> Dict[str, Tensor]:
        return {"gait_clock": command}


def _sine_and_cosine(turns: Tensor) -> Tensor:
    """Return [N, 2] of phases in turns [N]."""
    angle = turns * (2 * math.pi)
    return torch.stack((angle.sin(), angle.cos()), dim=1)


TERMS: Dict[str, Type[CommandSource]] = {
    "velocity": VelocityCommands,
    "joystick": JoystickCommands,
    "gait_clock": GaitClock,
}
"""Every source of this file by its name."""


class CommandLimit:
    """Let ``state.command`` follow ``state.requested_command`` with limited acceleration, from zero in each episode.

    Without ``cfg.enabled``, or without limits, both are one tensor.
    """

    def __init__(self, cfg: CommandLimitConfig, task: TaskContext):
        self._cfg, self._state = cfg, task.state
        self._applies = cfg.enabled and cfg.limits
        rates = torch.tensor([cfg.max_lin_acc, cfg.max_lin_acc, cfg.max_yaw_acc], device=task.device)
        self._largest_change = (rates * task.control_dt).masked_fill_(rates == 0, torch.inf)  # [3] in a control step
        if self._applies:
            task.state.unlimited_command = torch.zeros_like(task.state.command)

    def step(self, started: Tensor) -> None:
        """Change the commands by one control step; ``started`` [N] marks robots whose episodes start."""
        if not self._applies:
            return
        command = self._state.command
        command.masked_fill_(started.unsqueeze(1), 0.0)
        change = self._state.requested_command - command
        command.add_(change.clamp_(-self._largest_change, self._largest_change))

    def describe(self) -> Dict[str, float]:
        """Return the limits for the description of an exported policy; nothing without limits."""
        cfg = self._cfg
        return {"max_lin_acc": cfg.max_lin_acc, "max_yaw_acc": cfg.max_yaw_acc} if cfg.limits else {}

    def state_dict(self) -> Dict[str, Tensor]:
        """Return the limited command."""
        return {"limited": self._state.command.clone()} if self._applies else {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what :meth:`state_dict` returned; a state without limits has the requested command only."""
        if self._applies:
            self._state.command.copy_(state.get("limited", self._state.requested_command))


class Commands:
    """The command sources of a task, which write to ``state.commands``."""

    def __init__(self, cfg: CommandConfig, task: TaskContext):
        self._state, self._limit = task.state, CommandLimit(cfg.limit, task)
        self.sources: Dict[str, CommandSource] = {}
        for name, term in cfg.all_terms.items():
            where = f"env.commands.terms.{name}"
            source = bind_named(name, term, TERMS, "command term", where, settings_of(cfg))(task)
            if not isinstance(source, CommandSource):
                raise ValueError(f"{where} is a {type(source).__name__}; derive it from {CommandSource.__module__}")
            if name == "velocity" and len(source.ranges) != 3:
                raise ValueError(f"{where} has {len(source.ranges)} ranges; give those of vx, vy and yaw rate")
            self.sources[name] = source
            task.state.commands.setdefault(name, torch.zeros(task.num_envs, len(source.ranges), device=task.device))

    @property
    def clips(self) -> Tuple[str, ...]:
        """Names of the reference motions of all sources."""
        return tuple(name for source in self.sources.values() for name in source.clips)

    def sequences(self, loop_time: float) -> List[Frame]:
        """Return each of ``clips``, see :meth:`CommandSource.sequences`."""
        return [frame for source in self.sources.values() for frame in source.sequences(loop_time)]

    def play_from_start(self) -> None:
        """Let robots play clips from their first frames on, see :meth:`CommandSource.play_from_start`."""
        for source in self.sources.values():
            source.play_from_start()

    def recorded(self) -> Dict[str, Tensor]:
        """Return what recordings hold of all sources in a step beside their commands, [N, ...] each."""
        return {name: value for source in self.sources.values() for name, value in source.recorded().items()}

    def start(self, mask: Tensor) -> None:
        """Draw new commands of the robots marked in mask [N]."""
        self._draw(dict.fromkeys(self.sources, mask), mask)

    def step(self, mask: Tensor) -> None:
        """Count one control step; draw new commands of the robots marked in mask [N] and of those that need one."""
        self._draw({name: source.due() | mask for name, source in self.sources.items()}, mask)

    def _draw(self, due: Mapping[str, Tensor], started: Tensor) -> None:
        for name, source in self.sources.items():
            source.draw(self._drawn(name), due[name])
            source.follow(self._drawn(name))
        self._limit.step(started)

    def _drawn(self, name: str) -> Tensor:
        return self._state.requested_command if name == "velocity" else self._state.commands[name]

    def describe(self) -> Dict[str, Dict[str, Any]]:
        """Return what the sources tell of themselves, for the description of an exported policy."""
        described = {name: source.describe() for name, source in self.sources.items()}
        described["velocity"] = {**described["velocity"], **self._limit.describe()}
        return {name: facts for name, facts in described.items() if facts}

    def log(self) -> Dict[str, Tensor]:
        """Return what the sources report, for the log."""
        return {name: value for source in self.sources.values() for name, value in source.log().items()}

    def state_dict(self) -> Dict[str, Any]:
        """Return the command and the state of each source."""
        states = {name: {"command": self._drawn(name).clone(), **x.state_dict()} for name, x in self.sources.items()}
        states["velocity"].update(self._limit.state_dict())
        return states

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned; a source that the state does not have keeps its command."""
        if "age" in state:  # of a checkpoint with velocity commands only
            self.sources["velocity"].load_state_dict(state)
            return
        for name, source in self.sources.items():
            if name in state:
                self._drawn(name).copy_(state[name]["command"])
                source.load_state_dict(state[name])
        self._limit.load_state_dict(state["velocity"])
