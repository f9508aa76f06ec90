"""Events that randomise parameters of the robots, push them, or disturb their height scan.

Most randomise one parameter: they draw from ``range``, which is two numbers, or two numbers by pattern of names
(joints, links, or x, y, z), whose other names keep the nominal value. ``distribution`` is "uniform", or "log_uniform":
the logarithm is uniform, so that equal ratios are equally likely. ``same`` draws one number for all names of a robot.
``schedule`` scales the difference between what was drawn and the nominal value, so that the range grows, see
:class:`rsl_rl.config.mdp.ScheduleConfig`. What was drawn is in ``state.parameters`` under the name of the parameter,
for observations, and in the log under "Randomization/".
"""

from __future__ import annotations

import math
from typing import Any, Callable, ClassVar, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from rsl_rl.config.mdp import Distribution, Range, ScheduleConfig
from rsl_rl.sim.base import PARAMETERS, Sim
from rsl_rl.tasks.mdp.context import Schedule, TaskContext
from rsl_rl.tasks.robot_state import RobotState
from rsl_rl.utils.registry import suggest, values_by_name
from rsl_rl.utils.tensors import Stored, Uniform, none_on_cpu

Ranges = Union[Range, Mapping[str, Range]]


class RandomParameter(Stored):
    """Base class: draw a parameter and set it."""

    parameter: ClassVar[str]
    """Its name in ``state.parameters``."""
    of_engine: ClassVar[str] = ""
    """The parameter of the engine that it sets, see rsl_rl.sim.base; empty for none."""
    size: ClassVar[str] = ""
    """Size of a parameter that is not of the engine, in the words of rsl_rl.sim.base."""
    low: ClassVar[float] = -math.inf
    """Lower bound of ``range``."""
    stored = ("_schedule",)

    def __init__(
        self,
        task: TaskContext,
        *,
        range: Ranges,
        distribution: Distribution = "uniform",
        same: bool = False,
        schedule: Optional[ScheduleConfig] = None,
    ):
        self._task, self._is_log, self._same = task, distribution == "log_uniform", same
        where = f"the randomisation of {self.parameter}"
        if self.of_engine:
            task.sim.require_parameter(self.of_engine, where)
        names, neutral = self.names(task.sim), self.nominal_of(task.sim)
        pairs = values_by_name(range, names, where, others=None)
        self.bounds = [
            checked_range(pair, self.low, where) if pair is not None else (x, x) for pair, x in zip(pairs, neutral)
        ]
        self._neutral = torch.tensor(neutral, device=task.device)  # [k]
        drawn = self._drawn_bounds()
        self._limits = torch.tensor(drawn, device=task.device).unbind(dim=1)  # lowest, highest [k]
        if self._is_log:
            drawn = [log_range(pair, where) for pair in drawn]
        self._draw = Uniform(task.num_envs, [(0.0, 1.0)] if same else drawn, task.generator)
        low, high = torch.tensor(drawn, device=task.device).unbind(dim=1)
        self._low, self._width = low, high - low  # [k]
        self._schedule = Schedule(task, schedule) if schedule is not None else None
        self.prepare(task)
        self._set(self._neutral.expand(task.num_envs, -1).clone())

    @classmethod
    def names(cls, sim: Sim) -> Sequence[str]:
        """Return the names of the parameter's numbers."""
        size = PARAMETERS[cls.of_engine] if cls.of_engine else cls.size
        own = {"": (cls.parameter,), "joints": sim.joint_names, "bodies": sim.body_names, "vector": ("x", "y", "z")}
        return own[size]

    @classmethod
    def nominal_of(cls, sim: Sim) -> List[float]:
        """Return the numbers that change nothing."""
        if cls.of_engine:
            return sim.nominal_parameter(cls.of_engine).reshape(-1).tolist()
        return [0.0] * len(cls.names(sim))

    def _drawn_bounds(self) -> List[Range]:
        return self.bounds

    def prepare(self, task: TaskContext) -> None:
        """Do what the largest value needs."""

    def apply(self, value: Tensor) -> None:
        """Give the values [N, k] of all robots to the engine."""
        if self.of_engine:
            shape = self._task.sim.shape_of_parameter(self.of_engine)
            self._task.sim.set_parameters({self.of_engine: value.view(-1, *shape)})

    def __call__(self, mask: Tensor) -> None:
        drawn = self._draw()
        if none_on_cpu(mask):
            return
        if self._same:
            drawn = self._low + drawn * self._width
        if self._is_log:
            drawn = drawn.exp().clamp(*self._limits)
        if self._schedule is not None:
            drawn = self._neutral + self._schedule.factor * (drawn - self._neutral)
        value = torch.where(mask.unsqueeze(1), self.rounded(drawn), self._task.state.parameters[self.parameter])
        self._set(value)
        self.apply(value)

    def rounded(self, drawn: Tensor) -> Tensor:
        """Return numbers [N, k] that the parameter can have."""
        return drawn

    def _set(self, value: Tensor) -> None:
        self._task.state.set_parameter(self.parameter, value)

    def log(self) -> Dict[str, Tensor]:
        """Return mean, lowest and highest value of all robots."""
        value = self._task.state.parameters[self.parameter]
        name = f"Randomization/{self.parameter}"
        log = {f"{name}_mean": value.mean(), f"{name}_low": value.amin(), f"{name}_high": value.amax()}
        return log if self._schedule is None else {**log, f"{name}_schedule": self._schedule.factor}


def checked_range(pair: Range, least: float, where: str) -> Range:
    """Return a range; a lower end below ``least`` is a ValueError."""
    if pair[0] < least:
        raise ValueError(f"{where}: range={pair}; give numbers from {least:g}")
    return pair


def log_range(pair: Range, where: str) -> Range:
    """Return the logarithms of a range. A constant, which may be 0, has none: whatever is drawn is clamped to it."""
    if pair[0] == pair[1]:
        return 0.0, 0.0
    if pair[0] <= 0:
        raise ValueError(f"{where}: range={pair}; distribution='log_uniform' needs numbers above 0")
    return math.log(pair[0]), math.log(pair[1])


class Friction(RandomParameter):
    """Sliding friction between floor and robot; the setting friction has no effect then."""

    parameter, low, of_engine = "friction", 0.0, "friction"


class Restitution(RandomParameter):
    """Speed after an impact on the floor over the speed before it; an approximation in MuJoCo."""

    parameter, low, of_engine = "restitution", 0.0, "restitution"


class Payload(RandomParameter):
    """Mass added to the trunk [kg]."""

    parameter, of_engine = "payload", "payload"


class LinkMass(RandomParameter):
    """Factor of mass and inertia of each link."""

    parameter, low, of_engine = "link_mass", 1e-3, "link_mass"


class TrunkCom(RandomParameter):
    """Displacement of the trunk's centre of mass along x, y and z of the base frame [m]."""

    parameter, of_engine = "trunk_com", "trunk_com"


class Gravity(RandomParameter):
    """Change of gravity along x, y and z of the world [m/s^2]."""

    parameter, of_engine = "gravity_change", "gravity"

    @classmethod
    def nominal_of(cls, sim: Sim) -> List[float]:
        return [0.0, 0.0, 0.0]

    def apply(self, value: Tensor) -> None:
        super().apply(self._task.sim.nominal_parameter("gravity") + value)


class MotorStrength(RandomParameter):
    """Factor of the torque of each joint, the limit included."""

    parameter, low, of_engine = "motor_strength", 0.0, "motor_strength"


class _Gain(RandomParameter):
    """Base class of the factors of the gains."""

    low, size = 1e-3, "joints"

    @classmethod
    def nominal_of(cls, sim: Sim) -> List[float]:
        return [1.0] * len(sim.joint_names)

    def apply(self, value: Tensor) -> None:
        task = self._task
        gains = {name: task.sim.parameters().get(name, task.per_joint(name)) for name in ("stiffness", "damping")}
        gains = {name: gain.expand(task.num_envs, -1) for name, gain in gains.items()}
        gains[self.parameter] = task.per_joint(self.parameter) * value
        task.sim.set_gains(gains["stiffness"], gains["damping"])


class Stiffness(_Gain):
    """Factor of the proportional gain of each joint; the setting stiffness_scale has no effect then."""

    parameter = "stiffness"


class Damping(_Gain):
    """Factor of the derivative gain of each joint; the setting damping_scale has no effect then."""

    parameter = "damping"


class Armature(RandomParameter):
    """Inertia of the rotor of each joint [kg m^2]."""

    parameter, low, of_engine = "armature", 0.0, "armature"


class JointFriction(RandomParameter):
    """Dry friction of each joint [N m]."""

    parameter, low, of_engine = "joint_friction", 0.0, "joint_friction"


class EncoderOffset(RandomParameter):
    """Angle that the encoder of each joint adds to its position [rad], seen by PD loops and observations."""

    parameter, size = "encoder_offset", "joints"


class ActionDelay(RandomParameter):
    """Time between an action and the torque that follows it, in whole physics steps."""

    parameter, low = "action_delay", 0.0

    def _drawn_bounds(self) -> List[Range]:
        return [(low, high + 1) for low, high in self.bounds]

    def rounded(self, drawn: Tensor) -> Tensor:
        return drawn.floor().clamp(max=self.bounds[0][1])

    def prepare(self, task: TaskContext) -> None:
        low, high = self.bounds[0]
        if low % 1 or high % 1:
            raise ValueError(f"the randomisation of action_delay: range=({low:g}, {high:g}); give whole physics steps")
        task.actuator.allow_delay(int(low), int(high))


class PushForce(Stored):
    """Push the trunk with a force of random direction, up to ``force`` [N] in x and in y, for ``duration`` [s]."""

    stored = ("_remaining", "_schedule")

    def __init__(
        self,
        task: TaskContext,
        *,
        force: float,
        duration: Range = (0.1, 0.3),
        schedule: Optional[ScheduleConfig] = None,
    ):
        where = "the event push_force"
        task.sim.require_parameter("trunk_force", where)
        low, high = checked_range(duration, task.control_dt, f"{where}: duration")
        bounds = [(-force, force), (-force, force), (low / task.control_dt, high / task.control_dt), (0.0, 1.0)]
        self._task, self._draw = task, Uniform(task.num_envs, bounds, task.generator)
        self._remaining = torch.zeros(task.num_envs, device=task.device)  # control steps
        self._schedule = Schedule(task, schedule) if schedule is not None else None
        task.state.set_parameter("trunk_force", torch.zeros(task.num_envs, 3, device=task.device))
        task.observers.append(self._end_step)

    def _end_step(self, state: RobotState, done: Tensor) -> None:
        self._remaining = (self._remaining - 1).clamp(min=0).masked_fill(done, 0)

    def due(self, probability: float) -> Tensor:
        """Draw the pushes of all robots, and who is pushed [N]."""
        self._drawn = self._draw()
        return self._drawn[:, 3] < probability

    def __call__(self, mask: Tensor) -> None:
        state, last = self._task.state, self._task.state.parameters["trunk_force"]
        force = torch.nn.functional.pad(self._drawn[:, :2], (0, 1))
        if self._schedule is not None:
            force = self._schedule.factor * force
        self._remaining = torch.where(mask, self._drawn[:, 2].ceil(), self._remaining)
        held = torch.where(mask.unsqueeze(1), force, last) * (self._remaining > 0).unsqueeze(1)
        state.set_parameter("trunk_force", held)
        self._task.sim.set_parameters({"trunk_force": held})


class ScanError(Stored):
    """Draw the error of each robot's height scan at the start of an episode, an event of the mode reset.

    The scan is shifted by at most ``shift`` [m] along x and along y of the base, and ``offset`` [m] at most is added to
    its heights. Each of the three drifts with a constant rate of at most ``drift`` [m/s].
    """

    stored = ("_error", "_rate")

    def __init__(self, task: TaskContext, *, shift: float = 0.03, offset: float = 0.03, drift: float = 0.003):
        self._error = task.state.scan_error  # [N, 3]
        self._rate = torch.zeros_like(self._error)  # [N, 3] in one control step [m]
        rate = drift * task.control_dt
        bounds = [(-shift, shift)] * 2 + [(-offset, offset)] + [(-rate, rate)] * 3
        self._draw = Uniform(task.num_envs, bounds, task.generator)
        task.observers.append(self._advance)

    def __call__(self, mask: Tensor) -> None:
        error, rate = self._draw().split(3, dim=1)
        if none_on_cpu(mask):
            return
        column = mask.unsqueeze(1)
        torch.where(column, error, self._error, out=self._error)
        torch.where(column, rate, self._rate, out=self._rate)

    def _advance(self, state: RobotState, done: Tensor) -> None:
        self._error += self._rate


_PARAMETERS: Tuple[Any, ...] = (
    Friction, Restitution, Payload, LinkMass, TrunkCom, Gravity, MotorStrength, Stiffness, Damping, Armature,
    JointFriction, EncoderOffset, ActionDelay,
)  # fmt: skip

TERMS: Dict[str, Callable] = {**{kind.parameter: kind for kind in _PARAMETERS}, "push_force": PushForce}
"""Every event whose draws are in ``state.parameters``, by its name."""


def nominal_values(name: str, sim: Sim) -> Tensor:
    """Return a parameter of ``state.parameters`` without randomisation, [k]; an unknown name is a ValueError."""
    kinds = {kind.parameter: kind for kind in _PARAMETERS}
    if name == "trunk_force":
        return torch.zeros(3, device=sim.device)
    if name not in kinds:
        known = (*kinds, "trunk_force")
        raise ValueError(f"unknown parameter '{name}'; known: {', '.join(known)}.{suggest(name, known)}")
    return torch.tensor(kinds[name].nominal_of(sim), device=sim.device)
