"""Endurance: how long robots walk between two failures while their commands change as a joystick gives them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Sequence, Tuple, Union

import torch
from torch import Tensor

from rsl_rl.config.mdp import CommandTerm, EventTerm
from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.evaluation.conditions import ActingPolicy, disturbed, drift_of, for_evaluation, run
from rsl_rl.tasks.legged_robot import LeggedRobot
from rsl_rl.tasks.mdp.commands import JoystickCommands
from rsl_rl.tasks.robot_state import RobotState
from rsl_rl.utils.progress import silent

FAILURES = ("fall", "freeze", "not followed")
"""Kinds of failure; see :class:`FailureMonitor`."""

PUSHES = EventTerm("interval", 4.0, params={"push_velocity": 0.6, "push_turning": 1.5})
"""The pushes of an endurance test, equal for all tasks: every 4 s on average, the velocity of the trunk changes by at
most 0.6 m/s in x and in y, and by at most 1.5 rad/s about each axis."""

_RECORDED = 4.0
"""Time before a failure that is recorded [s]."""


def for_endurance(cfg: LeggedRobotConfig, num_envs: int, seconds: float) -> LeggedRobotConfig:
    """Return the task of an endurance test without pushes: the task of an evaluation with the noise of the
    observations, and with commands of :class:`JoystickCommands`."""
    task = for_evaluation(cfg, num_envs, seconds)
    commands = replace(task.commands, terms={**task.commands.terms, "velocity": CommandTerm("joystick")})
    return replace(task, observations=cfg.observations, commands=commands)


def with_pushes(cfg: LeggedRobotConfig) -> LeggedRobotConfig:
    """Return the task with :data:`PUSHES`."""
    return replace(cfg, randomization=cfg.randomization.with_terms({"push": PUSHES}))


class Failure(NamedTuple):
    """One failure with the last seconds before it."""

    kind: str  # of FAILURES
    command: str  # kind of the command, of JoystickCommands.KINDS
    seconds: float  # since the start of the test
    pose: Tensor  # [steps, 7 + J] root position, quaternion w x y z, joint angles
    requested: Tensor  # [steps, 3] vx, vy [m/s], yaw rate [rad/s]
    measured: Tensor  # [steps, 3] the same


class FailureJudge:
    """Find failures of N robots in each control step.

    - fall: an episode ends before its time limit;
    - freeze: a speed above 0.3 m/s is commanded, and the robot is slower than 0.1 m/s in at least four fifths of the
      time from 1.25 s after the command on, which is judged when this time reaches 1 s;
    - not followed: the error of the horizontal velocity stays above 0.3 m/s, or that of the yaw rate above 0.4 rad/s,
      for 3 s. Velocities are averaged exponentially over 0.25 s, so that the swing of a gait does not count.

    A robot that failed is judged anew from the next step on.
    """

    SPEED, STILL, SHARE, DELAY, JUDGED = 0.3, 0.1, 0.8, 1.25, 1.0  # [m/s], [m/s], [], [s], [s]
    LIN_ERROR, YAW_ERROR, PATIENCE, MEMORY = 0.3, 0.4, 3.0, 0.25  # [m/s], [rad/s], [s], [s]

    def __init__(self, num_envs: int, control_dt: float, device: Union[str, torch.device] = "cpu"):
        self._memory = control_dt / self.MEMORY  # weight of a step in the averaged velocity
        self._delay, self._judged, self._patience = (
            round(seconds / control_dt) for seconds in (self.DELAY, self.JUDGED, self.PATIENCE)
        )  # in control steps
        self._command = torch.zeros(num_envs, 3, device=device)  # of the last step
        self._velocity = torch.zeros(num_envs, 3, device=device)  # averaged
        self._age = torch.zeros(num_envs, device=device)  # steps since the command changed
        self._slow = torch.zeros(num_envs, device=device)  # judged steps of the current command with a low speed
        self._off = torch.zeros(num_envs, device=device)  # consecutive steps with a large error

    def __call__(self, command: Tensor, velocity: Tensor, fallen: Tensor) -> Tensor:
        """Judge one step: commands and velocities vx, vy [m/s] and yaw rate [rad/s], [N, 3]; who fell, [N]. Return who
        failed by each of :data:`FAILURES`, [3, N]; at most one of them holds for a robot."""
        new = (command != self._command).any(dim=1)
        self._restart(new)
        self._command.copy_(command)
        self._age += 1
        self._velocity.lerp_(velocity, self._memory)
        judged = self._age - self._delay
        asked = command[:, :2].norm(dim=1) > self.SPEED
        self._slow += asked & (judged > 0) & (velocity[:, :2].norm(dim=1) < self.STILL)
        frozen = asked & (judged >= self._judged) & (self._slow >= self.SHARE * judged)
        error = command - self._velocity
        off = (error[:, :2].norm(dim=1) > self.LIN_ERROR) | (error[:, 2].abs() > self.YAW_ERROR)
        self._off = (self._off + 1) * off
        astray = self._off >= self._patience
        kinds = torch.stack((fallen, frozen & ~fallen, astray & ~frozen & ~fallen))
        failed = kinds.any(dim=0)
        self._restart(failed)
        self._velocity.masked_fill_(failed.unsqueeze(1), 0.0)
        return kinds

    def _restart(self, mask: Tensor) -> None:
        for count in (self._age, self._slow, self._off):
            count.masked_fill_(mask, 0.0)


class FailureMonitor:
    """An observer of :class:`LeggedRobot` that judges each step, counts failures and records the first ones.

    ``failed`` [N] marks the robots that failed in the last step; they are to be restarted.
    """

    def __init__(self, env: LeggedRobot, num_recorded: int):
        source = env.commands.sources["velocity"]
        assert isinstance(source, JoystickCommands)
        self._source, self._dt, device = source, env.cfg.sim.control_dt, env.device
        self._judge = FailureJudge(env.num_envs, self._dt, device)
        self.failed = torch.zeros(env.num_envs, dtype=torch.bool, device=device)
        self._counts = torch.zeros(len(FAILURES), len(source.KINDS), dtype=torch.long)
        self._errors = torch.zeros(2, dtype=torch.float64, device=device)  # sums of velocity and yaw rate errors
        self.steps, self._num_recorded = 0, num_recorded
        self.recorded: List[Failure] = []
        width = 7 + len(env.sim.joint_names) + 3 + 3
        length = round(_RECORDED / self._dt) if num_recorded else 0
        self._last = torch.zeros(length, env.num_envs, width, device=device)  # the last steps, in a ring

    def __call__(self, state: RobotState, done: Tensor) -> None:
        """Judge one step, before the resets."""
        command, sim = state.requested_command, state.sim
        measured = state.planar_velocity
        kinds = self._judge(command, measured, done & ~state.timed_out)
        self.failed = kinds.any(dim=0)
        error = command - measured
        self._errors += torch.stack((error[:, :2].norm(dim=1).sum(), error[:, 2].abs().sum()))
        if len(self.recorded) < self._num_recorded:
            row = torch.cat((sim.root_pos, sim.root_quat, sim.joint_pos, command, measured), dim=1)
            self._last[self.steps % len(self._last)] = row
        self.steps += 1
        for kind, robot in kinds.nonzero().tolist():
            self._count(kind, robot)

    def _count(self, kind: int, robot: int) -> None:
        command = int(self._source.kind[robot])
        self._counts[kind, command] += 1
        if len(self.recorded) == self._num_recorded:
            return
        length = len(self._last)
        steps = [step % length for step in range(max(0, self.steps - length), self.steps)]
        pose, requested, measured = self._last[steps, robot].cpu().tensor_split((-6, -3), dim=1)
        name = self._source.KINDS[command]
        self.recorded.append(Failure(FAILURES[kind], name, self.steps * self._dt, pose, requested, measured))

    def result(self) -> Endurance:
        """Return what was counted."""
        count = self.steps * len(self.failed)  # control steps of robots
        rows = zip(FAILURES, self._counts.tolist())
        failures = {failure: dict(zip(self._source.KINDS, row)) for failure, row in rows}
        lin_vel_error, yaw_rate_error = (self._errors / max(count, 1)).tolist()
        return Endurance(count * self._dt / 3600, failures, lin_vel_error, yaw_rate_error, tuple(self.recorded))


@dataclass(frozen=True)
class Endurance:
    """Result of an endurance test."""

    robot_hours: float
    failures: Mapping[str, Mapping[str, int]]
    """Number of failures by kind, and by the kind of the command."""
    lin_vel_error: float
    """Mean length of v_xy - command [m/s]."""
    yaw_rate_error: float
    """Mean distance from the commanded yaw rate [rad/s]."""
    recorded: Sequence[Failure] = field(default=(), repr=False)
    """The first failures."""

    @property
    def num_failures(self) -> int:
        return sum(map(self.count, self.failures))

    @property
    def hours_between_failures(self) -> float:
        """Robot-hours per failure; infinite without failures."""
        return self.robot_hours / self.num_failures if self.num_failures else math.inf

    @property
    def interval(self) -> Tuple[float, float]:
        """The 95 % interval of the hours between failures."""
        low, high = poisson_interval(self.num_failures)
        return self.robot_hours / high, self.robot_hours / low if low else math.inf

    def count(self, kind: str) -> int:
        """Return the number of failures of a kind of :data:`FAILURES`."""
        return sum(self.failures[kind].values())

    @property
    def metrics(self) -> Dict[str, float]:
        """The first of JOYSTICK_METRICS."""
        return {
            "failures_per_hour": self.num_failures / self.robot_hours,
            "freezes_per_hour": self.count("freeze") / self.robot_hours,
            "joystick_lin_vel_error": self.lin_vel_error,
        }

    def as_dict(self) -> Dict[str, Any]:
        """Return the result for JSON."""
        return {
            "robot_hours": self.robot_hours,
            "hours_between_failures": self.hours_between_failures,
            "interval": self.interval,
            "failures": self.failures,
            "lin_vel_error": self.lin_vel_error,
            "yaw_rate_error": self.yaw_rate_error,
        }


def failure_rates(free: Endurance, pushed: Endurance) -> Dict[str, float]:
    """Return the rates of JOYSTICK_METRICS, of a test without and one with pushes."""
    rates = {name: free.metrics[name] for name in ("failures_per_hour", "freezes_per_hour")}
    return {**rates, "pushed_failures_per_hour": pushed.num_failures / pushed.robot_hours}


def poisson_interval(count: int, confidence: float = 0.95) -> Tuple[float, float]:
    """Return the exact interval of the mean of a Poisson distribution of which ``count`` was drawn (Garwood 1936)."""
    tail = (1 - confidence) / 2
    low = _rate(count, tail) if count else 0.0
    return low, _rate(count + 1, 1 - tail)


def _rate(shape: int, probability: float) -> float:
    """Return x with P(shape, x) = probability, where P is the regularised lower incomplete gamma function."""
    low, high = 0.0, 10.0 * shape + 100.0
    a = torch.tensor(float(shape), dtype=torch.float64)
    for _ in range(100):
        middle = (low + high) / 2
        below = float(torch.special.gammainc(a, torch.tensor(middle, dtype=torch.float64))) < probability
        low, high = (middle, high) if below else (low, middle)
    return (low + high) / 2


@torch.no_grad()
def measure_endurance(
    env: LeggedRobot,
    policy: ActingPolicy,
    seconds: float,
    num_recorded: int = 0,
    progress: Callable[[float], None] = silent,
) -> Endurance:
    """Run every robot of the task of :func:`for_endurance` for a time [s]; robots that fail are restarted. ``progress``
    gets the share that is done after each step."""
    monitor = FailureMonitor(env, num_recorded)
    obs = env.reset()
    policy.reset()
    env.observers.append(monitor)
    steps = round(seconds / env.cfg.sim.control_dt)
    for step in range(steps):
        obs, _, done, _ = env.step(policy(obs))
        restart = monitor.failed & ~done
        if restart.any():
            obs = env.reset(restart.nonzero().squeeze(1))
        policy.reset(done | monitor.failed)
        progress((step + 1) / steps)
    env.observers.remove(monitor)
    return monitor.result()


DIRECTIONS = {
    "forward": (0, 1.0),
    "backward": (0, -1.0),
    "left": (1, 1.0),
    "right": (1, -1.0),
    "turn left": (2, 1.0),
    "turn right": (2, -1.0),
}
"""Component of the command and its sign, of each direction in which small commands are tested."""

SIZES = (0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3)
"""Sizes of these commands [m/s, rad/s]."""

_REPEATS, _STOPPED = 6, 64  # robots of each small command, and robots that are to stop
_WALKING, _SETTLING, _MEASURED = 3.0, 2.0, 10.0  # [s]


@dataclass(frozen=True)
class SmallCommands:
    """How a policy follows small commands, and whether it stands."""

    dead_zone: Dict[str, float]
    """Size from which on commands are followed, by direction [m/s, rad/s]: see :func:`dead_zone`. A command is followed
    if the mean velocity of its robots is at least half of it. Directions outside of the ranges of the task are left
    out."""
    velocities: Dict[str, Tuple[float, ...]]
    """Mean velocity in each direction for each size [m/s, rad/s]."""
    stop_drift: float
    """Mean horizontal distance in 10 s of robots that walked and were told to stop [m]."""
    stop_drift_max: float
    """Largest of these distances [m]."""
    falls: int
    """Robots that fell; they do not count otherwise."""

    @property
    def metrics(self) -> Dict[str, float]:
        """The last of JOYSTICK_METRICS."""
        return {"dead_zone": max(self.dead_zone.values(), default=0.0), "stop_drift": self.stop_drift}


def for_small_commands(cfg: LeggedRobotConfig) -> LeggedRobotConfig:
    """Return the task of :func:`measure_small_commands`: that of an evaluation, with the noise of the observations."""
    num_envs = len(DIRECTIONS) * len(SIZES) * _REPEATS + _STOPPED
    seconds = _WALKING + _SETTLING + _MEASURED
    task = for_evaluation(cfg, num_envs, seconds, command_period=2 * seconds)
    others = {name: term for name, term in task.commands.terms.items() if name != "velocity"}
    commands = replace(task.commands, heading_fraction=0.0, terms=others)
    return replace(task, observations=cfg.observations, commands=commands)


@torch.no_grad()
def measure_small_commands(env: LeggedRobot, policy: ActingPolicy) -> SmallCommands:
    """Let the robots of the task of :func:`for_small_commands` walk for 3 s, each with a random command. Then give each
    a small one, or none, and measure from 2 s later on for 10 s."""
    dt, state, sim = env.cfg.sim.control_dt, env.state, env.sim
    small = torch.zeros(env.num_envs, 3, device=env.device)
    robots = torch.arange(env.num_envs - _STOPPED, device=env.device).view(len(DIRECTIONS), len(SIZES), _REPEATS)
    for (axis, sign), rows in zip(DIRECTIONS.values(), robots):
        small[rows, axis] = sign * small.new_tensor(SIZES).unsqueeze(1)
    walking, settled, end = (round(t / dt) for t in (_WALKING, _WALKING + _SETTLING, _WALKING + _SETTLING + _MEASURED))
    fallen = torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
    velocity, start = torch.zeros_like(small), sim.root_pos.clone()
    for i, done in enumerate(run(env, policy, end), start=1):
        if i >= walking:
            state.requested_command.copy_(small)  # read by the policy from the next step on
        if i == settled:
            start = sim.root_pos.clone()
            fallen.zero_()
        elif i > settled:
            velocity += state.planar_velocity
        fallen |= done
    velocity /= end - settled
    velocities: Dict[str, Tuple[float, ...]] = {}
    for (name, (axis, sign)), rows in zip(DIRECTIONS.items(), robots):
        low, high = env.commands.sources["velocity"].final_ranges[axis]
        if (high if sign > 0 else -low) >= max(SIZES):
            counted = (~fallen[rows]).float()
            means = (sign * velocity[rows, axis] * counted).sum(dim=1) / counted.sum(dim=1)
            velocities[name] = tuple(means.tolist())
    mean, largest = drift_of(*(x[-_STOPPED:] for x in (start, sim.root_pos, fallen)))
    dead_zones = {name: dead_zone(values) for name, values in velocities.items()}
    return SmallCommands(dead_zones, velocities, mean, largest, int(fallen.sum()))


def dead_zone(velocities: Sequence[float]) -> float:
    """Return the size from which on at least half of each command is followed, for the velocity at each of
    :data:`SIZES`; infinite if the largest is not followed.

    It is interpolated between the smallest size that is followed and the next smaller one, linearly in the difference
    of the velocity and half of the command.
    """
    smallest, above = math.inf, math.nan
    for size, velocity in reversed(list(zip(SIZES, velocities))):
        margin = velocity - 0.5 * size
        if not margin >= 0:
            share = margin / (margin - above)
            return smallest if math.isnan(share) else size + share * (smallest - size)
        smallest, above = size, margin
    return smallest


ROBOTS = 1024
"""Largest number of robots of an endurance test."""

_SHORTEST = 20.0
"""Shortest time of an endurance test [s]; fewer robots are tested if there is not that much time for each."""


@dataclass(frozen=True)
class JoystickResult:
    """Result of a joystick evaluation."""

    free: Endurance
    """Without pushes."""
    pushed: Endurance
    """With :data:`PUSHES`."""
    small: SmallCommands

    @property
    def metrics(self) -> Dict[str, float]:
        """All JOYSTICK_METRICS."""
        return {
            **self.free.metrics,
            **failure_rates(self.free, self.pushed),
            **self.small.metrics,
        }


def size_of(robot_hours: float, control_dt: float) -> Tuple[int, float]:
    """Return the number of robots and the time [s] of an endurance test."""
    num_envs = int(min(ROBOTS, max(1.0, robot_hours * 3600 / _SHORTEST)))
    return num_envs, max(robot_hours * 3600 / num_envs, control_dt)


def evaluate_joystick(
    cfg: LeggedRobotConfig,
    policy: ActingPolicy,
    device: str,
    seed: int,
    robot_hours: float,
    disturbance: str = "",
    num_recorded: int = 3,
    progress: Callable[[float], None] = silent,
) -> JoystickResult:
    """Test the endurance of a policy without and with pushes, each for ``robot_hours``, and how it follows small
    commands. ``cfg`` is the task of the training; a disturbance replaces its randomisation, see :func:`disturbed`.
    ``progress`` gets the share that is done of the two tests."""
    num_envs, seconds = size_of(robot_hours, cfg.sim.control_dt)
    rows = []
    for pushes in (False, True):
        task = for_endurance(cfg, num_envs, seconds)
        task = disturbed(task, disturbance) if disturbance else task
        env = (with_pushes(task) if pushes else task).build(device, seed=seed)
        recorded = 0 if pushes else num_recorded
        rows.append(measure_endurance(env, policy, seconds, recorded, lambda share: progress((len(rows) + share) / 2)))
    task = for_small_commands(cfg)
    env = (disturbed(task, disturbance) if disturbance else task).build(device, seed=seed)
    return JoystickResult(rows[0], rows[1], measure_small_commands(env, policy))


def merge(results: Sequence[Endurance]) -> Endurance:
    """Return the result of several tests together."""
    hours = sum(one.robot_hours for one in results)
    failures = {
        kind: {command: sum(one.failures[kind][command] for one in results) for command in row}
        for kind, row in results[0].failures.items()
    }
    lin_vel_error = sum(one.lin_vel_error * one.robot_hours for one in results) / hours
    yaw_rate_error = sum(one.yaw_rate_error * one.robot_hours for one in results) / hours
    recorded = [failure for one in results for failure in one.recorded]
    return Endurance(hours, failures, lin_vel_error, yaw_rate_error, recorded)
