"""Events that randomise one parameter of the robots each.

An event draws uniformly from ``range``: two numbers, or two numbers by pattern of names (joints, links, or x, y, z),
whose other names keep the nominal value. ``same`` draws one number for all names of a robot. ``schedule`` lets the
range grow from the nominal value, see :class:`rsl_rl.config.terms.ScheduleConfig`. What was drawn is in
``state.parameters`` under the name of the parameter, for observations, and in the log under "Randomization/".
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Tuple, Union

import torch
from torch import Tensor

from rsl_rl.config.mdp import Range
from rsl_rl.config.terms import ScheduleConfig
from rsl_rl.sim.base import Sim
from rsl_rl.tasks.mdp.context import TaskContext
from rsl_rl.tasks.mdp.random_parameter import RandomParameter, checked_range
from rsl_rl.tasks.mdp.schedules import Schedule
from rsl_rl.tasks.robot_state import RobotState
from rsl_rl.utils.registry import suggest
from rsl_rl.utils.uniform import Uniform


class Friction(RandomParameter):
    """Sliding friction between floor and robot."""

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
        task.actuator.allow_delay(int(high))


class PushForce:
    """Push the trunk with a force of random direction, up to ``force`` [N] in x and in y, for ``duration`` [s]."""

    def __init__(
        self,
        task: TaskContext,
        *,
        force: float,
        duration: Range = (0.1, 0.3),
        schedule: Union[Mapping[str, Any], ScheduleConfig, None] = None,
    ):
        where = "the event push_force"
        task.sim.require_parameter("trunk_force", where)
        low, high = checked_range(duration, task.control_dt, f"{where}: duration")
        bounds = [(-force, force), (-force, force), (low / task.control_dt, high / task.control_dt), (0.0, 1.0)]
        self._task, self._draw = task, Uniform(task.num_envs, bounds, task.generator)
        self._remaining = torch.zeros(task.num_envs, device=task.device)  # control steps
        self._schedule = Schedule(task, schedule, f"{where}: schedule") if schedule is not None else None
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

    def state_dict(self) -> Dict[str, Any]:
        """Return the time that is left of each push."""
        schedule = {} if self._schedule is None else self._schedule.state_dict()
        return {"remaining": self._remaining.clone(), **schedule}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned."""
        self._remaining.copy_(state["remaining"])
        if self._schedule is not None and "progress" in state:
            self._schedule.load_state_dict(state)


_PARAMETERS: Tuple[Any, ...] = (
    Friction, Restitution, Payload, LinkMass, TrunkCom, Gravity, MotorStrength, Stiffness, Damping, Armature,
    JointFriction, EncoderOffset, ActionDelay,
)  # fmt: skip

TERMS: Dict[str, Callable] = {**{kind.parameter: kind for kind in _PARAMETERS}, "push_force": PushForce}
"""Every event of this file by its name."""


def nominal_values(name: str, sim: Sim) -> Tensor:
    """Return a parameter of ``state.parameters`` without randomisation, [k]; an unknown name is a ValueError."""
    kinds = {kind.parameter: kind for kind in _PARAMETERS}
    if name == "trunk_force":
        return torch.zeros(3, device=sim.device)
    if name not in kinds:
        known = (*kinds, "trunk_force")
        raise ValueError(f"unknown parameter '{name}'; known: {', '.join(known)}.{suggest(name, known)}")
    return torch.tensor(kinds[name].nominal_of(sim), device=sim.device)
