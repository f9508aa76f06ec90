"""Events: functions that randomise parameters of the robots, set start states and disturb the robots.

An event is a function ``event(task, mask, **params)``, or a class with ``__init__(task, **params)`` and
``__call__(mask)``. ``task`` is a :class:`TaskContext`; the event concerns the robots marked in mask [N], which may be
none. A class may have ``state_dict`` and ``load_state_dict`` for checkpoints, and ``due(probability)``, which returns
the robots that an event of the mode interval happens to in a step, [N] bool.
"""

from __future__ import annotations

import functools
import inspect
import math
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

import torch
from torch import Tensor

from rsl_rl.config.mdp import NotNegative, PositiveRange, RandomizationConfig, Range, ScheduleConfig
from rsl_rl.sim.base import RobotPoseVel
from rsl_rl.tasks.mdp import randomization
from rsl_rl.tasks.mdp.context import Schedule, TaskContext
from rsl_rl.utils.binding import bind_term, find_function, settings_of
from rsl_rl.utils.tensors import Stored, Uniform, from_yaw, none_on_cpu


def model_parameters(
    task: TaskContext,
    mask: Tensor,
    *,
    friction: PositiveRange,
    payload: Range,
    stiffness_scale: PositiveRange,
    damping_scale: PositiveRange,
) -> None:
    """Draw the sliding friction between feet and floor, the mass added to the trunk [kg], and the factors of the gains
    of each joint."""
    sim, state = task.sim, task.state
    num_envs, num_joints = state.action.shape
    gain_scales = (stiffness_scale,) * num_joints + (damping_scale,) * num_joints
    drawn = Uniform(num_envs, (friction, payload, *gain_scales), task.generator)()
    if none_on_cpu(mask):
        return
    last = sim.parameters()
    state.friction = _where(mask, drawn[:, 0], last.get("friction"))
    state.payload = _where(mask, drawn[:, 1], last.get("payload"))
    stiffness, damping = drawn[:, 2:].split(num_joints, dim=1)
    sim.set_friction(state.friction)
    sim.set_root_payload(state.payload)
    sim.set_gains(
        _where(mask, task.per_joint("stiffness") * stiffness, last.get("stiffness")),
        _where(mask, task.per_joint("damping") * damping, last.get("damping")),
    )


def _where(mask: Tensor, new: Tensor, old: Optional[Tensor]) -> Tensor:
    """Return ``new`` [N, ...] for the robots marked in mask [N], and for all if there is no old value."""
    if old is None:
        return new.clone()
    return torch.where(mask.view(-1, *[1] * (new.dim() - 1)), new, old)


class StartState:
    """Set the start state: a random heading; a velocity of the trunk of at most ``initial_velocity`` [m/s] and [rad/s]
    per axis; the default joint angles times ``initial_joint_scale``; on a terrain also the place on the robot's tile.

    On a height field a robot is lifted until the centre of each foot is at least ``foot_radius`` above the ground
    underneath. MuJoCo pushes a foot whose centre is below the surface to the side or down, so that it stays there.
    """

    def __init__(self, task: TaskContext, *, initial_joint_scale: Range, initial_velocity: NotNegative):
        low, high = initial_joint_scale
        velocity = (-initial_velocity, initial_velocity)
        joints = [(low * angle, high * angle) for angle in task.robot.default_joint_pos]
        self._levels = task.levels
        spread = ((-self._levels.spread, self._levels.spread),) * 2 if self._levels.spread else ()
        bounds = [(-math.pi, math.pi), *(velocity,) * 6, *joints, *spread]
        self.draw = Uniform(task.num_envs, bounds, task.generator)
        self._sim, self._ground, self._foot_radius = task.sim, task.state.ground, task.robot.foot_radius
        self._above_ground = torch.tensor([0.0, 0.0, task.robot.standing_height], device=task.device)
        self._joint_vel = torch.zeros(task.num_envs, len(joints), device=task.device)

    def __call__(self, mask: Tensor) -> None:
        drawn = self.draw()
        if none_on_cpu(mask):
            return
        num_joints = self._joint_vel.shape[1]
        heading, lin_vel, ang_vel, joint_pos, offset = drawn.tensor_split([1, 4, 7, 7 + num_joints], dim=1)
        joint_pos = joint_pos.clamp(*self._sim.joint_limits.unbind(dim=1))
        pos = self._levels.origins + self._above_ground
        pos[:, : offset.shape[1]] += offset
        pose_vel = RobotPoseVel(pos, from_yaw(heading[:, 0]), lin_vel, ang_vel, joint_pos, self._joint_vel)
        self._sim.reset(mask, pose_vel)
        if self._sim.ground is not None:
            depth = self._foot_radius - self._ground.height_above(self._sim.foot_pos)
            pos[:, 2] += depth.amax(dim=1).clamp(min=0.0)
            self._sim.reset(mask, pose_vel)


class Push(Stored):
    """Change the velocity of the trunk: the horizontal one by at most ``push_velocity`` [m/s] in x and in y, and the
    angular one by at most ``push_turning`` [rad/s] about each axis. ``schedule`` lets both change during the training.
    """

    stored = ("_schedule",)

    def __init__(
        self,
        task: TaskContext,
        *,
        push_velocity: NotNegative,
        push_turning: NotNegative,
        schedule: Optional[ScheduleConfig] = None,
    ):
        self._sim, self._generator = task.sim, task.generator
        self._largest, self._turning = push_velocity, push_turning
        self._schedule = Schedule(task, schedule) if schedule is not None else None

    def due(self, probability: float) -> Tensor:
        """Draw the pushes of all robots, and who is pushed [N]."""
        count = 6 if self._turning else 3
        self._drawn = torch.rand(self._sim.num_envs, count, device=self._sim.device, generator=self._generator)
        return self._drawn[:, 2] < probability

    def __call__(self, mask: Tensor) -> None:
        change, ang_vel = self._drawn.sub_(0.5).mul_(2), self._sim.root_ang_vel
        if self._schedule is not None:
            change *= self._schedule.factor
        if self._turning:
            ang_vel = ang_vel + change[:, 3:] * self._turning
        lin_vel = change[:, :3].mul_(self._largest)
        lin_vel[:, 2] = 0.0
        self._sim.set_root_velocity(mask, lin_vel.add_(self._sim.root_lin_vel), ang_vel)

    def log(self) -> Dict[str, Tensor]:
        """Return the factor of the schedule."""
        return {} if self._schedule is None else {"Schedule/push": self._schedule.factor}


TERMS: Dict[str, Callable] = {
    "model_parameters": model_parameters,
    "start_state": StartState,
    "push": Push,
    "scan_error": randomization.ScanError,
    **randomization.TERMS,
}
"""Every event by its name."""


class Events:
    """The events of a task by their modes."""

    def __init__(self, cfg: RandomizationConfig, task: TaskContext):
        self._task = task
        self._terms: Dict[str, Callable[[Tensor], Any]] = {}
        self._of_mode: Dict[str, List[Callable[[Tensor], Any]]] = {"startup": [], "reset": []}
        self._intervals: List[Tuple[Callable[[float], Tensor], float, Callable[[Tensor], Any]]] = []
        for name, term in cfg.terms.items():
            function = find_function(term.func or name, TERMS, "event term")
            num_arguments = 1 if inspect.isclass(function) else 2
            where = f"env.randomization.terms.{name}"
            bound = bind_term(function, term.params, where, settings_of(cfg), num_arguments)
            if term.mode == "interval" and term.period == 0:
                continue
            event = bound(task) if inspect.isclass(function) else functools.partial(bound, task)
            if not callable(event):
                raise ValueError(f"{where}: {function.__qualname__} has no method __call__(mask); write one")
            self._terms[name] = event
            if term.mode == "interval":
                probability = task.control_dt / term.period
                self._intervals.append((getattr(event, "due", self._due), probability, event))
            else:
                self._of_mode[term.mode].append(event)

    def _due(self, probability: float) -> Tensor:
        task = self._task
        return torch.rand(task.num_envs, device=task.device, generator=task.generator) < probability

    def startup(self) -> None:
        """Run the events of the mode startup for all robots."""
        mask = torch.ones(self._task.num_envs, dtype=torch.bool, device=self._task.device)
        for event in self._of_mode["startup"]:
            event(mask)

    def reset(self, mask: Tensor) -> None:
        """Run the events of the mode reset for the robots marked in mask [N]."""
        for event in self._of_mode["reset"]:
            event(mask)

    def interval(self) -> None:
        """Run the events of the mode interval that happen in this step."""
        for due, probability, event in self._intervals:
            event(due(probability))

    def state_dict(self) -> Dict[str, Any]:
        """Return the state of each event that has one."""
        states = {name: event.state_dict() for name, event in self._stateful().items()}
        return {name: state for name, state in states.items() if state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned; an event that the state does not have keeps its own."""
        for name, event in self._stateful().items():
            if name in state:
                event.load_state_dict(state[name])

    def log(self) -> Dict[str, Tensor]:
        """Return what the events report of the present parameters, for the log."""
        logs = [event.log() for event in self._terms.values() if hasattr(event, "log")]
        return {name: value for log in logs for name, value in log.items()}

    def _stateful(self) -> Dict[str, Any]:
        return {name: event for name, event in self._terms.items() if hasattr(event, "state_dict")}
