"""Conditions of an evaluation: changes of a task's config, and running a policy in them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Dict, Iterator, Mapping, Optional, Protocol, Sequence, Tuple

from torch import Tensor

from rsl_rl.config.mdp import CommandConfig, EventTerm, RandomizationConfig, ScheduleConfig
from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.config.terrain import TerrainType
from rsl_rl.env.vec_env import Observations
from rsl_rl.evaluation.gait_metrics import GaitMetrics, own_metrics
from rsl_rl.tasks.legged_robot import LeggedRobot
from rsl_rl.terrain.types import TYPES
from rsl_rl.utils.registry import suggest

COMMAND_PERIOD = 10.0
"""Time after which robots get new commands in an evaluation [s], for every task."""

DISTURBANCES: Dict[str, str] = {
    "none": "the robot of the model file",
    "heavy_trunk": "5 kg on the trunk",
    "slippery": "friction 0.15",
    "delay": "20 ms between an action and its torque",
    "weak_motors": "0.6 of the torque",
    "pushes": "changes of the horizontal velocity by up to 1.5 m/s in x and in y, every 4 s",
}
"""Conditions of an evaluation that are equal for all policies, whatever they were trained with."""

JOYSTICK_METRICS = {
    "failures_per_hour": "falls, freezes and commands that are not followed, per robot-hour under a joystick",
    "freezes_per_hour": "freezes per robot-hour under a joystick",
    "joystick_lin_vel_error": "mean length of v_xy - command under a joystick [m/s]",
    "pushed_failures_per_hour": "failures per robot-hour under a joystick, with pushes",
    "dead_zone": "largest dead zone of all directions [m/s, rad/s]",
    "stop_drift": "mean horizontal drift in 10 s of robots that walked and were told to stop [m]",
}
"""Description and unit of each metric of rsl_rl.evaluation.endurance."""

TRACKING_METRICS = {
    "tracking_failures": "share of the episodes in a reference motion that ended before it",
}
"""Description of each metric of rsl_rl.evaluation.motion_tracking."""

SETTLING_TIME, DRIFT_TIME = 2.0, 10.0
"""Time before the measurement of the drift, and its length [s]."""

_COLUMNS = 4
"""Columns of tiles of one type, and rows of one level."""


class ActingPolicy(Protocol):
    """A function from observations to actions [N, A], with a recurrent state that can be reset."""

    def __call__(self, obs: Observations) -> Tensor: ...

    def reset(self, dones: Optional[Tensor] = None) -> None: ...


def for_evaluation(
    cfg: LeggedRobotConfig,
    num_envs: int,
    seconds: float,
    pushes: bool = False,
    command_period: float = COMMAND_PERIOD,  # [s]
) -> LeggedRobotConfig:
    """Return the task for evaluation: no noise and no bias in any group of observations, no standing commands, no
    curriculum of the terrain, and pushes and other events at random times only with ``pushes``.

    The limits of the command's acceleration hold. Command ranges and the randomisation of friction, payload and gains
    are those of training.
    """
    if not isinstance(cfg, LeggedRobotConfig):
        raise ValueError(
            f"{type(cfg).__name__} is not the config of a legged robot, so its gait cannot be evaluated or shown; take "
            "a task such as go2_flat"
        )
    if seconds < cfg.sim.control_dt:
        raise ValueError(f"seconds={seconds} is less than one control step of {cfg.sim.control_dt:g} s; give more")
    known = (*GaitMetrics.NAMES, *JOYSTICK_METRICS, *TRACKING_METRICS, *own_metrics(cfg, JOYSTICK_METRICS))
    unknown = [name for name in cfg.gate if name not in known]
    if unknown:
        raise ValueError(f"gate names '{unknown[0]}'; known: {', '.join(known)}.{suggest(unknown[0], known)}")
    randomization = cfg.randomization
    if not pushes:
        events = {name: term for name, term in randomization.terms.items() if term.mode == "interval"}
        randomization = randomization.with_terms({name: replace(term, period=0.0) for name, term in events.items()})
    commands = replace(
        cfg.commands,
        standing_fraction=0.0,
        slow_fraction=0.0,
        resampling_time=command_period,
        schedule=replace(cfg.commands.schedule, steps=0),
        limit=replace(cfg.commands.limit, enabled=True),
    )
    return replace(
        cfg,
        num_envs=num_envs,
        episode_length=2 * seconds,  # no time-outs during the evaluation
        observations={
            group: own.with_terms({name: replace(term, noise=0.0, bias=0.0) for name, term in own.terms.items()})
            for group, own in cfg.observations.items()
        },
        randomization=replace(randomization, terms=_without_schedules(randomization.terms)),
        commands=commands,
        terrain=replace(cfg.terrain, curriculum=False),
    )


def _without_schedules(terms: Mapping[str, EventTerm]) -> Dict[str, EventTerm]:
    """Return events whose ranges are those of the end of the training."""
    ended = {}
    for name, term in terms.items():
        schedule = term.params.get("schedule")
        final = {"schedule": {**schedule, "steps": 0}} if schedule else {}
        ended[name] = replace(term, params={**term.params, **final})
    return ended


def with_constant_command(cfg: CommandConfig, command: Sequence[float]) -> CommandConfig:
    """Return commands with one velocity: forward and left [m/s], and yaw rate [rad/s]."""
    vx, vy, yaw_rate = ((value, value) for value in command)
    others = {name: term for name, term in cfg.terms.items() if name != "velocity"}
    return replace(cfg, lin_vel_x=vx, lin_vel_y=vy, yaw_rate=yaw_rate, schedule=ScheduleConfig(), terms=others)


def for_standing(cfg: LeggedRobotConfig) -> LeggedRobotConfig:
    """Return the task of an evaluation with the command to stand only."""
    commands = replace(with_constant_command(cfg.commands, (0.0, 0.0, 0.0)), heading_fraction=0.0)
    return replace(cfg, commands=commands, episode_length=max(cfg.episode_length, 2 * (SETTLING_TIME + DRIFT_TIME)))


def disturbed(cfg: LeggedRobotConfig, names: str) -> LeggedRobotConfig:
    """Return the task of an evaluation without its randomisation, with the contacts of the model file and with
    disturbances, joined by "+"."""
    delay = round(0.02 / cfg.sim.dt)  # physics steps
    parameters = {"heavy_trunk": {"payload": (5.0, 5.0)}, "slippery": {"friction": (0.15, 0.15)}}
    events = {
        "pushes": {"push": EventTerm("interval", 4.0, params={"push_velocity": 1.5})},
        "delay": {"action_delay": EventTerm("startup", params={"range": (delay, delay)})},
        "weak_motors": {"motor_strength": EventTerm("startup", params={"range": (0.6, 0.6)})},
    }
    randomization = RandomizationConfig.none().with_terms({"start_state": cfg.randomization.terms["start_state"]})
    for name in names.split("+"):
        if name not in DISTURBANCES:
            raise ValueError(f"--disturbance {name}: known: {', '.join(DISTURBANCES)}.{suggest(name, DISTURBANCES)}")
        if name in parameters:
            randomization = randomization.with_params("model_parameters", **parameters[name])
        randomization = randomization.with_terms(events.get(name, {}))
    return replace(cfg, randomization=randomization, sim=replace(cfg.sim, contact_impedance=0.0))


def on_terrain(cfg: LeggedRobotConfig, name: str, level: int) -> LeggedRobotConfig:
    """Return the task on tiles of one type and one level; an empty name and the level -1 change nothing.

    The type is one of the task, with its parameters, or one of rsl_rl.terrain.types. A level without a name changes all
    types of the task.
    """
    terrain = cfg.terrain
    if name:
        known = {**dict.fromkeys(TYPES, TerrainType()), **terrain.all_types}
        if name not in known and ":" not in name:
            raise ValueError(f"--terrain {name}: unknown type; known: {', '.join(known)}.{suggest(name, known)}")
        terrain = replace(terrain, types={name: known.get(name, TerrainType())}, num_columns=_COLUMNS)
    elif level >= 0 and not terrain.is_rough:
        raise ValueError(f"--level {level}: the ground of this task is a plane; add --terrain, such as stairs_up")
    if not -1 <= level < terrain.num_levels:
        raise ValueError(f"--level {level}: give a level from 0 to {terrain.num_levels - 1}")
    return replace(cfg, terrain=replace(terrain, level=level, curriculum=False) if name or level >= 0 else terrain)


def drift_of(start: Tensor, end: Tensor, fallen: Tensor) -> Tuple[float, float]:
    """Return mean and largest horizontal distance [m] between positions [N, 3] of the robots that have not fallen [N];
    NaN if all have."""
    drift = (end - start)[~fallen, :2].norm(dim=1)
    return (float(drift.mean()), float(drift.max())) if len(drift) else (math.nan, math.nan)


def run(env: LeggedRobot, policy: ActingPolicy, num_steps: int) -> Iterator[Tensor]:
    """Run a policy from new episodes on; yield which robots are done [N] after each control step."""
    obs = env.reset()
    policy.reset()
    for _ in range(num_steps):
        obs, _, done, _ = env.step(policy(obs))
        policy.reset(done)
        yield done
