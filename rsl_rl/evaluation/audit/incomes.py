"""Measure what the rewards of a task pay for walking, and for motions that only seem to follow the command."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Callable, Dict, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from rsl_rl.config.mdp import ObservationGroupConfig, ObservationTerm, RandomizationConfig
from rsl_rl.config.sim import ActuatorConfig
from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.config.terrain import TerrainConfig
from rsl_rl.evaluation.audit.motions import DUTY, Gait, Motion, Planner, trot_offsets
from rsl_rl.evaluation.audit.replay import Income, Meter, replay
from rsl_rl.evaluation.conditions import ActingPolicy, for_evaluation
from rsl_rl.motion.legs import Legs, require_feet
from rsl_rl.robots import ROBOTS
from rsl_rl.sim.base import RobotPoseVel
from rsl_rl.tasks.legged_robot import LeggedRobot
from rsl_rl.tasks.mdp.style import FootClock

SIZES = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0)
"""Sizes of the commands [m/s, rad/s], up to the largest of the task."""

WALK, POLICY = "walk", "policy"

SHAMS: Dict[str, str] = {
    "stand": "stands on all feet",
    "march": "steps in place",
    "lean": "leans toward the command on all feet",
    "one leg up": "stands with one foot in the air",
    "turn only": "steps and turns in place",
    "slide": "follows the command without lifting a foot",
    "crawl": "follows the command with a low trunk",
    "lie": "lies on its side",
}
"""Motions that are not what the command asks for. Those but slide and crawl do not move as commanded."""

FOLLOWING = ("slide", "crawl")
"""Shams that follow the command."""

_PERIODS = (0.4, 0.6, 0.8)
"""Periods of the steps that are tried, for legs of 0.3 m [s]; they grow with the root of the length."""

_SWING_HEIGHTS = (0.1, 0.2)
"""Heights of the steps that are tried, as shares of the length of the legs."""

_TILT = 0.15
"""Tilt of a leaning trunk [rad]."""

_LOW = 0.65
"""Height of a crawling trunk as a share of the standing height."""

_SETTLING_TIME, _MEASURED_TIME = 1.5, 2.0
"""Times of what the physics simulates: a lying robot, and a policy [s]."""

_COPIES = 4
"""Robots with the same command and a policy."""


@dataclass(frozen=True)
class Earned:
    """What a robot earns per second."""

    total: float
    terms: Dict[str, float]
    """Weighted reward by term."""
    velocity: Tuple[float, float, float]
    """Mean velocity forward and left [m/s], and yaw rate [rad/s]."""


@dataclass(frozen=True)
class CommandRow:
    """What motions earn under one command."""

    direction: str
    size: float
    """Of the command [m/s, rad/s]."""
    command: Tuple[float, float, float]
    earned: Dict[str, Earned]
    """By motion; the best of several step frequencies and heights. One that the legs do not reach is missing."""


AXES = {"forward": (0, 1), "backward": (0, -1), "sideways": (1, 0), "turning": (2, 0)}
"""Axis of the command and its sign by direction; 0: the side with the larger range."""


def commands_of(ranges: Sequence[Tuple[float, float]]) -> List[Tuple[str, float, Tuple[float, float, float]]]:
    """Return direction, size and command of every command of an audit, from the ranges of a task."""
    found = []
    for name, (axis, sign) in AXES.items():
        low, high = ranges[axis]
        end = (high if sign > 0 else low) if sign else max(low, high, key=abs)
        if end * (sign or end) <= 0:
            continue
        for size in [*(size for size in SIZES if size < abs(end) - 1e-6), abs(end)]:
            command = [0.0, 0.0, 0.0]
            command[axis] = math.copysign(size, end)
            found.append((name, size, (command[0], command[1], command[2])))
    return found


def for_audit(cfg: LeggedRobotConfig, num_envs: int) -> LeggedRobotConfig:
    """Return the task on a plane without randomisation, observations, limits and ends of episodes by time."""
    if not isinstance(cfg, LeggedRobotConfig):
        raise ValueError(
            f"{type(cfg).__name__} is not the config of a legged robot, so its rewards cannot be audited; take a task "
            "such as go2_flat"
        )
    commands = replace(
        cfg.commands,
        standing_fraction=0.0,
        slow_fraction=0.0,
        heading_fraction=0.0,
        resampling_time=1e5,
        schedule=replace(cfg.commands.schedule, steps=0),
        limit=replace(cfg.commands.limit, enabled=False),
    )
    if "style" in commands.terms and commands.terms["style"].params.get("styles"):
        commands = commands.with_params("style", only=commands.terms["style"].params["styles"][0])
    return replace(
        cfg,
        num_envs=num_envs,
        episode_length=1e5,
        sim=replace(cfg.sim, backend="mujoco", num_threads=1),
        terrain=TerrainConfig(),
        control=replace(cfg.control, actuator=ActuatorConfig()),
        commands=commands,
        randomization=RandomizationConfig.none(),
        observations={"policy": ObservationGroupConfig({"gravity": ObservationTerm()})},
    )


def for_policy(cfg: LeggedRobotConfig, num_envs: int) -> LeggedRobotConfig:
    """Return the task of evaluations on a plane and on the CPU, for a policy under constant commands."""
    task = for_evaluation(cfg, num_envs, 2 * (_SETTLING_TIME + _MEASURED_TIME))
    return replace(
        task,
        sim=replace(task.sim, backend="mujoco", num_threads=1),
        terrain=TerrainConfig(),
        commands=replace(task.commands, heading_fraction=0.0, resampling_time=1e5),
    )


def measure(cfg: LeggedRobotConfig, policy: Optional[ActingPolicy] = None) -> List[CommandRow]:
    """Return what every motion earns under every command, and what a policy does."""
    task = for_audit(cfg, 1)
    require_feet(ROBOTS.load(task.robot))
    first = task.build("cpu", seed=0)
    if first.commands.clips:
        raise ValueError("the commands are those of reference motions; an audit needs velocity commands that are drawn")
    legs = Legs(first.robot, first.sim.joint_names, first.sim.foot_names)
    commands = commands_of(first.commands.sources["velocity"].final_ranges)
    if not commands:
        raise ValueError(
            "env.commands has no velocity command but zero; give ranges such as --env.commands.lin_vel_x -1 1"
        )
    gait = gait_of(first, legs)
    planner = make_planner(first, legs, gait)
    periods, heights = _steps(first, legs, gait)
    fastest = max((abs(command[2]) for _, _, command in commands), default=0.0) or 0.5
    candidates = [
        (i, motion)
        for i, (_, _, command) in enumerate(commands)
        for motion in motions(command, periods, heights, fastest / 2)
    ]
    tracks = planner.tracks([motion for _, motion in candidates])
    possible = [(i, motion) for i, motion in candidates if tracks[motion].possible]
    env = for_audit(cfg, len(possible)).build("cpu", seed=0)
    rows = [(torch.tensor(commands[i][2]), tracks[motion]) for i, motion in possible]
    income = replay(env, rows, torch.tensor([motion.velocity for _, motion in possible]))
    names = list(cfg.rewards.terms)
    earned: List[Dict[str, Earned]] = [{} for _ in commands]
    for row, (i, motion) in enumerate(possible):
        own = _earned(income, row, names)
        if motion.name not in earned[i] or own.total > earned[i][motion.name].total:
            earned[i][motion.name] = own
    every = torch.tensor([command for _, _, command in commands])
    lying = lie(cfg, every)
    for i in range(len(commands)):
        earned[i]["lie"] = _earned(lying, i, names)
    if policy is not None:
        walked = walk(cfg, every, policy)
        for i in range(len(commands)):
            earned[i][POLICY] = _earned(walked, i, names)
    return [CommandRow(*command, own) for command, own in zip(commands, earned)]


def _earned(income: Income, row: int, names: Sequence[str]) -> Earned:
    vx, vy, rate = income.velocity[row].tolist()
    return Earned(float(income.total[row]), dict(zip(names, income.terms[:, row].tolist())), (vx, vy, rate))


def make_planner(env: LeggedRobot, legs: Legs, gait: Gait) -> Planner:
    """Return the planner of motions in a gait."""
    terms = env.cfg.rewards.terms
    targets = [own.params["base_height_target"] for own in terms.values() if "base_height_target" in own.params]
    standing = env.robot.foot_radius - float(legs.default_position[:, 2].mean())
    height = targets[0] if targets and abs(targets[0] / standing - 1) < 0.2 else standing
    return Planner(legs, gait, env.cfg.sim.control_dt, env.robot.foot_radius, height)


def gait_of(env: LeggedRobot, legs: Legs) -> Gait:
    """Return the gait that the task asks for by a clock, with several styles that of the first one, or a trot."""
    for source in env.commands.sources.values():
        if isinstance(source, FootClock):
            rhythm = source.rhythms[0]
            return Gait(tuple(rhythm.touchdown), rhythm.duty[0], rhythm.period)
    if "gait_clock" not in env.commands.sources:
        return Gait(trot_offsets(legs.default_position), DUTY)
    feet, terms = len(env.sim.foot_names), env.cfg.rewards.terms
    shares = [own.params.get("stance_share", DUTY) for name, own in terms.items() if (own.func or name) == "gait"]
    period = env.commands.sources["gait_clock"].describe()["period"]
    return Gait(tuple(i / feet for i in range(feet)), shares[0] if shares else DUTY, period)


def _steps(env: LeggedRobot, legs: Legs, gait: Gait) -> Tuple[Sequence[float], Sequence[float]]:
    """Return the periods [s] and the heights [m] of steps to try: those that the task asks for, or several."""
    periods = [gait.clock] if gait.clock else [period * math.sqrt(legs.length / 0.3) for period in _PERIODS]
    wanted = [own.params.get("foot_clearance_target") for own in env.cfg.rewards.terms.values()]
    heights = [target - env.robot.foot_radius for target in wanted if target and target > env.robot.foot_radius]
    return periods, heights[:1] or [share * legs.length for share in _SWING_HEIGHTS]


def motions(
    command: Tuple[float, float, float], periods: Sequence[float], heights: Sequence[float], rate: float
) -> List[Motion]:
    """Return what a robot may do under a command; ``rate`` is that of turning in place [rad/s]."""
    low, (vx, vy, turning) = heights[0], command
    tilt = (math.copysign(_TILT, -vy), 0.0) if vy else (0.0, math.copysign(_TILT, vx))
    found = [
        Motion("stand"),
        Motion("lean", tilt=tilt),
        Motion("one leg up", lifted=2 * low),
    ]
    for period in periods:
        for height in heights:
            found.append(Motion(WALK, command, period, height))
            found.append(Motion("march", (0.0, 0.0, 0.0), period, height))
        found.append(Motion("slide", command, period))
        found.append(Motion("crawl", command, period, low, height=_LOW))
        if not turning:
            found.append(Motion("turn only", (0.0, 0.0, rate), period, low))
    return found


@torch.no_grad()
def lie(cfg: LeggedRobotConfig, commands: Tensor) -> Income:
    """Return what robots earn that lie on their sides, simulated; nothing if that ends the episode."""
    env = for_audit(cfg, len(commands)).build("cpu", seed=0)
    env.reset()
    pose, half = env.sim.pose_vel(), math.sqrt(0.5)
    root = pose.root_pos.clone()
    root[:, 2] = env.robot.standing_height  # above the floor, to which it falls
    zero = torch.zeros_like(root)
    quat = torch.tensor([half, half, 0.0, 0.0]).expand(len(commands), 4)
    every = torch.ones(len(commands), dtype=torch.bool)
    joints = env.state.default_joint_pos.expand_as(pose.joint_pos)
    env.sim.reset(every, RobotPoseVel(root, quat, zero, zero, joints, torch.zeros_like(joints)))
    env.state.refresh_pose()
    return _simulate(env, commands, lambda: torch.zeros(env.num_envs, env.num_actions))


@torch.no_grad()
def walk(cfg: LeggedRobotConfig, commands: Tensor, policy: ActingPolicy) -> Income:
    """Return what a policy earns, simulated in the task of evaluations on a plane; means over several robots."""
    env = for_policy(cfg, _COPIES * len(commands)).build("cpu", seed=0)
    policy.reset()

    def act() -> Tensor:
        return policy(env.get_observations())

    income = _simulate(env, commands.repeat_interleave(_COPIES, dim=0), act)
    total, terms, velocity = income
    return Income(
        total.view(-1, _COPIES).mean(dim=1),
        terms.view(len(terms), -1, _COPIES).mean(dim=2),
        velocity.view(-1, _COPIES, 3).mean(dim=1),
    )


def _simulate(env: LeggedRobot, commands: Tensor, act: Callable[[], Tensor]) -> Income:
    meter, step = Meter(env), env.cfg.sim.control_dt
    settling, measured = round(_SETTLING_TIME / step), round(_MEASURED_TIME / step)
    for k in range(settling + measured):
        meter.step(act(), commands, torch.full((env.num_envs,), k >= settling))
        if meter.all_ended:
            break
    return meter.income()


def best_walk(row: CommandRow) -> Optional[Earned]:
    """Return what walking earns: of the policy if there is one, otherwise of the reference gait; None if no gait
    reaches the command."""
    return row.earned.get(POLICY, row.earned.get(WALK))
