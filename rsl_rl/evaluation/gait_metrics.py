"""Metrics of a gait: falls, tracking errors, actions, torques, foot contacts."""

from __future__ import annotations

import math
from typing import Callable, ClassVar, Collection, Dict, List, NamedTuple, Sequence

import torch
from torch import Tensor

from rsl_rl.config.mdp import CommandConfig
from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.robots import Robot
from rsl_rl.tasks import faults
from rsl_rl.tasks.mdp.terminations import Terminations
from rsl_rl.tasks.robot_state import RobotState
from rsl_rl.utils.binding import bind_named
from rsl_rl.utils.registry import values_by_name
from rsl_rl.utils.tensors import none_on_cpu

_GRAVITY = 9.81  # [m/s^2]

AXES = ("lin_vel_x", "lin_vel_y", "yaw_rate")
"""Components of a command; [m/s], [m/s] and [rad/s]."""

_BINS = 5
"""Number of bins of equal width for the range of each component."""


class CommandBin(NamedTuple):
    """Samples whose command lies between two values in one component; the other components are not restricted."""

    axis: str  # of AXES
    low: float
    high: float
    samples: int  # control steps of robots
    command: float  # mean commanded value; this and the following are NaN if there are no samples
    measured: float  # mean measured value
    lin_vel_error: float  # mean length of v_xy - command [m/s]
    yaw_rate_error: float  # [rad/s]


class CommandBins:
    """Sums of tracking errors by command bin, on the device."""

    def __init__(self, cfg: CommandConfig):
        self._ranges = [getattr(cfg, axis) for axis in AXES]
        self._sums = torch.zeros(0)

    def add(self, command: Tensor, measured: Tensor, lin_vel_error: Tensor, yaw_rate_error: Tensor) -> None:
        """Add a step of N robots: commands and velocities [N, 3], errors [N]."""
        if not len(self._sums):
            self._sums = torch.zeros(3 * _BINS, 5, dtype=torch.float64, device=command.device)
            low, high = torch.tensor(self._ranges, device=command.device).unbind(dim=1)
            self._low, self._per_bin = low, _BINS / (high - low).clamp(min=1e-9)
            self._first = torch.arange(3, device=command.device) * _BINS
        index = ((command - self._low) * self._per_bin).long().clamp(0, _BINS - 1) + self._first  # [N, 3]
        errors = torch.stack((lin_vel_error, yaw_rate_error), dim=1).unsqueeze(1).expand(-1, 3, -1)
        own = torch.stack((torch.ones_like(command), command, measured), dim=2)
        values = torch.cat((own, errors), dim=2).double()  # [N, 3, 5]
        self._sums.index_add_(0, index.flatten(), values.flatten(0, 1))

    def result(self) -> List[CommandBin]:
        """Return the bins of each component in order, one for a component with a constant value; none if the only
        command is to stand."""
        if all(bounds == (0.0, 0.0) for bounds in self._ranges):
            return []
        bins = []
        for (axis, (low, high)), rows in zip(zip(AXES, self._ranges), self._sums.reshape(3, _BINS, 5).tolist()):
            edges = [round(low + k * (high - low) / _BINS, 6) for k in range(_BINS + 1)]
            count = _BINS if high > low else 1
            bins += [_bin(axis, edges[i], edges[i + 1], rows[i]) for i in range(count)]
        return bins


def _bin(axis: str, low: float, high: float, sums: Sequence[float]) -> CommandBin:
    samples, *totals = sums
    command, measured, lin_vel_error, yaw_rate_error = (total / samples if samples else math.nan for total in totals)
    return CommandBin(axis, low, high, int(samples), command, measured, lin_vel_error, yaw_rate_error)


def _of_each_robot(name: str, value: Tensor, state: RobotState) -> Tensor:
    """Return the value [N] of a metric; another shape is a ValueError."""
    num_envs = len(state.action)
    if not isinstance(value, Tensor) or value.shape != (num_envs,):
        got = list(value.shape) if isinstance(value, Tensor) else type(value).__name__
        raise ValueError(f"the metric '{name}' returns {got}; return a tensor [N], here N={num_envs}")
    return value


def merge_bins(results: Sequence[Sequence[CommandBin]]) -> List[CommandBin]:
    """Merge the bins of several evaluations."""
    merged = []
    for bins in zip(*results):
        samples = sum(one.samples for one in bins)
        totals = [sum(one[k] * one.samples for one in bins if one.samples) for k in range(4, 8)]
        merged.append(_bin(bins[0].axis, bins[0].low, bins[0].high, (samples, *totals)))
    return merged


def own_metrics(cfg: LeggedRobotConfig, others: Collection[str] = ()) -> Dict[str, Callable[[RobotState], Tensor]]:
    """Return the functions of ``env.metrics`` by name; one that is shipped or in ``others`` is a ValueError."""
    taken = [name for name in cfg.metrics if name in GaitMetrics.NAMES or name in others]
    if taken:
        raise ValueError(f"env.metrics has '{taken[0]}', which every evaluation has; give it another name")
    named = cfg.metrics.items()
    return {name: bind_named(name, term, {}, "metric", f"env.metrics.{name}") for name, term in named}


class GaitMetrics:
    """An observer of :class:`LeggedRobot` that sums over all robots and steps on the device.

    ``result``, ``falls``, ``tracking`` and ``saturation`` are read once at the end.
    """

    DESCRIPTIONS: ClassVar[Dict[str, str]] = {
        "fall_rate": "falls per robot",
        "lin_vel_error": "mean length of v_xy - command, base frame [m/s]",
        "yaw_rate_error": "mean distance from the commanded yaw rate [rad/s]",
        "action_rate": "root mean square change of the joint target per control step [rad]",
        "action_jerk": "root mean square second difference of the joint target, over three control steps [rad]",
        "mean_torque": "mean magnitude of the joint torques [N m]",
        "torque_saturation": "share of joint samples at the torque limit",
        "foot_slip": "mean horizontal speed of feet on the floor [m/s]",
        "swing_height": "mean highest point of a swing [m]",
        "step_frequency": "gait frequency: touchdowns of a foot per second [1/s]",
        "duty_factor": "share of time that a foot is on the floor",
        "cost_of_transport": "mechanical work per weight and distance",
    }
    """Description and unit of each metric."""
    NAMES = tuple(DESCRIPTIONS)

    def __init__(self, cfg: LeggedRobotConfig, robot: Robot):
        self._cfg, self._foot_radius = cfg, robot.foot_radius
        self._sums: Dict[str, Tensor] = {}
        self._bins = CommandBins(cfg.commands)
        self._own = own_metrics(cfg)
        self._steps = 0

    def __call__(self, state: RobotState, done: Tensor) -> None:
        """Add one step of N robots, before the resets."""
        if self._steps == 0:
            self._terminations = Terminations(self._cfg.terminations, state)
            self._causes = tuple(self._terminations.causes(state))
            self._swing_height = torch.zeros_like(state.air_time)  # highest point of each current swing [m]
            self._last_change = torch.zeros_like(state.action)  # of the target, one control step ago [rad]
            scale = values_by_name(self._cfg.control.action_scale, state.sim.joint_names, "env.control.action_scale")
            self._action_scale = torch.tensor(scale, device=state.action.device)  # [J] [rad] per unit of action
            self._joint_names = tuple(state.sim.joint_names)
            self._saturated = torch.zeros(len(scale), dtype=torch.float64, device=state.action.device)  # [J] steps
        self._steps += 1
        self._num_envs, self._num_joints = state.action.shape
        fallen = done & ~state.timed_out
        self._add("falls", fallen)
        if not none_on_cpu(fallen):
            self._count_falls(state, fallen)
        self._add_tracking(state)
        self._add_actions(state, done)
        self._add_feet(state)
        self._add("torque", state.joint_torque.abs())
        self._saturated += (state.joint_torque.abs() >= 0.999 * state.sim.torque_limits).sum(dim=0)
        self._add("work", (state.joint_torque * state.joint_vel).abs() * state.control_dt)
        self._add("distance", state.base_lin_vel[:, :2].norm(dim=1) * state.control_dt)
        for name, metric in self._own.items():
            self._add(f"own {name}", _of_each_robot(name, metric(state), state))
        self._add("weight", state.sim.total_mass * _GRAVITY / self._num_envs)

    def _count_falls(self, state: RobotState, fallen: Tensor) -> None:
        """Count each fall under its first cause."""
        cfg = self._cfg.terminations
        remaining = fallen
        broken = {"engine": state.sim.diverged | state.sim.overflowed, "state": faults.broken_state(state, cfg)}
        for cause, where in {**broken, **self._terminations.causes(state)}.items():
            self._add(f"falls by {cause}", remaining & where)
            remaining = remaining & ~where
        self._add("falls by other", remaining)

    def _add_tracking(self, state: RobotState) -> None:
        measured = state.planar_velocity
        error = state.requested_command - measured
        lin_vel_error, yaw_rate_error = error[:, :2].norm(dim=1), error[:, 2].abs()
        self._add("lin_vel_error", lin_vel_error)
        self._add("yaw_rate_error", yaw_rate_error)
        self._bins.add(state.requested_command, measured, lin_vel_error, yaw_rate_error)

    def _add_actions(self, state: RobotState, done: Tensor) -> None:
        """Add first and second differences of the joint target; before an episode it is the default pose."""
        change = self._action_scale * (state.action - state.previous_action)
        self._add("action_change", change.square())
        self._add("action_jerk", (change - self._last_change).square())
        self._last_change = change.masked_fill(done.unsqueeze(1), 0.0)

    def _add_feet(self, state: RobotState) -> None:
        contact = state.foot_contact
        height = state.foot_height - self._foot_radius
        self._swing_height = torch.maximum(self._swing_height, height)
        self._add("slip", state.foot_vel[:, :, :2].norm(dim=-1) * contact)
        self._add("contact", contact)
        self._add("touchdowns", state.foot_touchdown)
        self._add("swing_height", self._swing_height * state.foot_touchdown)
        self._swing_height = torch.where(contact, torch.zeros_like(height), self._swing_height)

    def _add(self, name: str, value: Tensor) -> None:
        total = value.sum(dtype=torch.float64)
        self._sums[name] = self._sums[name] + total if name in self._sums else total

    def result(self) -> Dict[str, float]:
        """Return the metrics by name; see DESCRIPTIONS."""
        total = {name: float(value) for name, value in self._sums.items()}
        samples, feet = self._steps * self._num_envs, self._swing_height.shape[1]
        seconds = samples * self._cfg.sim.control_dt  # of robot time
        mean_weight = total["weight"] / self._steps  # [N]
        return {
            "fall_rate": total["falls"] / self._num_envs,
            "lin_vel_error": total["lin_vel_error"] / samples,
            "yaw_rate_error": total["yaw_rate_error"] / samples,
            "action_rate": (total["action_change"] / samples / self._num_joints) ** 0.5,
            "action_jerk": (total["action_jerk"] / samples / self._num_joints) ** 0.5,
            "mean_torque": total["torque"] / samples / self._num_joints,
            "torque_saturation": float(self._saturated.sum()) / samples / self._num_joints,
            "foot_slip": total["slip"] / max(total["contact"], 1.0),
            "swing_height": total["swing_height"] / max(total["touchdowns"], 1.0),
            "step_frequency": total["touchdowns"] / feet / seconds,
            "duty_factor": total["contact"] / feet / samples,
            "cost_of_transport": total["work"] / (mean_weight * max(total["distance"], 1e-9)),
            **{name: total[f"own {name}"] / samples for name in self._own},
        }

    def falls(self) -> Dict[str, float]:
        """Return the falls per robot by cause; their sum is fall_rate.

        A fall is counted under the first matching cause: the engine diverged or its contact buffer overflowed
        ("engine"), the state is not finite or too fast ("state"), a termination ("<link>_contact", "tilt" and those of
        the task), or "other": a reward or observation that is not finite. The end of an episode at a time limit or at
        the edge of a terrain is not a fall.
        """
        causes = ("engine", "state", *self._causes, "other")
        return {cause: float(self._sums.get(f"falls by {cause}", 0.0)) / self._num_envs for cause in causes}

    def saturation(self) -> Dict[str, float]:
        """Return the share of time that each joint is at its torque limit; their mean is torque_saturation."""
        shares = self._saturated / (self._steps * self._num_envs)
        return dict(zip(self._joint_names, shares.tolist()))

    def tracking(self) -> List[CommandBin]:
        """Return the tracking errors of each command bin."""
        return self._bins.result()
