"""Evaluate a policy on a legged robot with metrics that do not depend on how it was trained."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Protocol, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

from rsl_rl.config.mdp import CommandConfig, EventTerm, RandomizationConfig
from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.config.terrain import TerrainType
from rsl_rl.env.vec_env import Observations
from rsl_rl.evaluation.gait_metrics import CommandBin, GaitMetrics, merge_bins
from rsl_rl.tasks.legged_robot import LeggedRobot
from rsl_rl.tasks.robot_state import RobotState
from rsl_rl.terrain.types import TYPES
from rsl_rl.utils.registry import suggest

COMMAND_PERIOD = 10.0
"""Time after which robots get new commands in an evaluation [s], for every task."""

RESAMPLES = 10_000
"""Resamples of each bootstrap interval."""

DISTURBANCES: Dict[str, str] = {
    "none": "the robot of the model file",
    "heavy_trunk": "5 kg on the trunk",
    "slippery": "friction 0.15",
    "delay": "20 ms between an action and its torque",
    "weak_motors": "0.6 of the torque",
    "pushes": "changes of the horizontal velocity by up to 1.5 m/s in x and in y, every 4 s",
}
"""Conditions of an evaluation that are equal for all policies, whatever they were trained with."""

STANDING_METRICS = {
    "standing_drift": "mean horizontal drift in 10 s of robots that are to stand [m]",
    "standing_drift_max": "largest of these drifts [m]",
    "standing_falls": "share of robots that fell while they were to stand",
}
"""Description and unit of each metric of :func:`measure_drift`."""

SETTLING_TIME, DRIFT_TIME = 2.0, 10.0
"""Time before the measurement of the drift, and its length [s]."""

SATURATION_LIMIT = 0.05
"""Torque saturation above which a report warns: on a robot, little torque is left to react with."""

_NAMED_JOINTS = 3  # in a warning

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
    unknown = [name for name in cfg.gate if name not in GaitMetrics.NAMES]
    if unknown:
        raise ValueError(
            f"gate names '{unknown[0]}'; known: {', '.join(GaitMetrics.NAMES)}.{suggest(unknown[0], GaitMetrics.NAMES)}"
        )
    randomization = cfg.randomization
    if not pushes:
        events = {name: term for name, term in randomization.terms.items() if term.mode == "interval"}
        randomization = randomization.with_terms({name: replace(term, period=0.0) for name, term in events.items()})
    commands = replace(
        cfg.commands,
        standing_fraction=0.0,
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
    return replace(cfg, lin_vel_x=vx, lin_vel_y=vy, yaw_rate=yaw_rate, terms=others)


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


def run(env: LeggedRobot, policy: ActingPolicy, num_steps: int) -> Iterator[Tensor]:
    """Run a policy from new episodes on; yield which robots are done [N] after each control step."""
    obs = env.reset()
    policy.reset()
    for _ in range(num_steps):
        obs, _, done, _ = env.step(policy(obs))
        policy.reset(done)
        yield done


class Recorder:
    """An observer of :class:`LeggedRobot` that records every step of the first robots."""

    def __init__(self, num_robots: int, action_scale: Tensor):
        self._n = num_robots
        self._action_scale = action_scale  # [J] [rad] per unit of action
        self._steps: List[Dict[str, Tensor]] = []

    def __call__(self, state: RobotState, done: Tensor) -> None:
        """Record one step, before the resets."""
        sim = state.sim
        step = {
            "pose": torch.cat((sim.root_pos, sim.root_quat, sim.joint_pos), dim=1),  # [n, 7 + J]
            "command": state.requested_command,  # [n, 3] vx, vy [m/s], yaw rate [rad/s]
            "velocity": torch.cat(
                (state.base_lin_vel[:, :2], state.base_ang_vel[:, 2:]), dim=1
            ),  # [n, 3] the same, measured
            "base_height": state.base_height,  # [n] above the ground underneath [m]
            "foot_contact": state.foot_contact,  # [n, F]
            "target": state.default_joint_pos + self._action_scale * state.action,  # [n, J] [rad]
            "target_change": self._action_scale * (state.action - state.previous_action),  # [n, J] [rad] in this step
            "torque": state.joint_torque,  # [n, J] [N m]
            "done": done,  # [n]
        }
        self._steps.append({name: value[: self._n].clone() for name, value in step.items()})

    def result(self) -> Dict[str, Tensor]:
        """Return everything recorded, each [steps, n, ...], on the CPU."""
        return {name: torch.stack([step[name] for step in self._steps]).cpu() for name in self._steps[0]}


class SeedResult(NamedTuple):
    """Result of an evaluation with one seed."""

    metrics: Dict[str, float]  # described by GaitMetrics.DESCRIPTIONS
    falls: Dict[str, float]  # per robot, by cause; their sum is fall_rate
    tracking: List[CommandBin]
    recording: Dict[str, Tensor]  # of the first robot, see Recorder
    saturation: Mapping[str, float] = MappingProxyType({})  # share of time at the torque limit, by joint


def evaluate(env: LeggedRobot, policy: ActingPolicy, seconds: float) -> Dict[str, float]:
    """Run every robot for a time [s] and return the metrics of :attr:`GaitMetrics.DESCRIPTIONS`."""
    return evaluate_seed(env, policy, seconds).metrics


@torch.no_grad()
def evaluate_seed(env: LeggedRobot, policy: ActingPolicy, seconds: float) -> SeedResult:
    """Run every robot for a time [s]; return metrics, falls, tracking errors and a recording."""
    metrics, recorder = GaitMetrics(env.cfg, env.robot), Recorder(1, env.action_scale)
    env.observers += [metrics, recorder]
    for _ in run(env, policy, round(seconds / env.cfg.sim.control_dt)):
        pass
    env.observers.remove(metrics)
    env.observers.remove(recorder)
    numbers = metrics.result(), metrics.falls(), metrics.tracking()
    return SeedResult(*numbers, recorder.result(), metrics.saturation())


@dataclass(frozen=True)
class EvalResult:
    """Result of the evaluation of a checkpoint with several seeds."""

    name: str
    """Label in a comparison."""
    checkpoint: str
    env_steps: int
    """Environment steps of its training."""
    env_cfg: LeggedRobotConfig
    """Task of the evaluation."""
    foot_names: Tuple[str, ...]
    seed_results: Sequence[SeedResult]
    disturbance: str = ""
    """Name of the disturbance, if one was asked for."""

    @property
    def metrics(self) -> Dict[str, float]:
        """Means over the seeds."""
        return _means([seed_result.metrics for seed_result in self.seed_results])

    @cached_property
    def intervals(self) -> Dict[str, Tuple[float, float]]:
        """Confidence interval of each mean, see :func:`bootstrap_interval`; empty for one seed."""
        if len(self.seed_results) < 2:
            return {}
        values = {name: [seed_result.metrics[name] for seed_result in self.seed_results] for name in self.metrics}
        return {name: bootstrap_interval(value) for name, value in values.items()}

    @property
    def falls(self) -> Dict[str, float]:
        """Falls per robot by cause, means over the seeds."""
        return _means([seed_result.falls for seed_result in self.seed_results])

    @property
    def tracking(self) -> List[CommandBin]:
        """Tracking errors by command over the samples of all seeds."""
        return merge_bins([seed_result.tracking for seed_result in self.seed_results])

    @property
    def unmet(self) -> List[str]:
        """Success criteria that it does not meet, as sentences."""
        return unmet_criteria([seed_result.metrics for seed_result in self.seed_results], self.env_cfg.gate)

    @property
    def warnings(self) -> List[str]:
        """What is worth knowing even if the criteria are met, as sentences."""
        share = self.metrics.get("torque_saturation", 0.0)
        if not share > SATURATION_LIMIT:
            return []
        joints = _means([seed_result.saturation for seed_result in self.seed_results])
        most = sorted(joints, key=lambda name: joints[name], reverse=True)[:_NAMED_JOINTS]
        named = ", ".join(f"{name} {joints[name]:.0%}" for name in most)
        return [
            f"torque_saturation {share:.3f} > {SATURATION_LIMIT:g}: joints are at their torque limit for {share:.1%} "
            f"of the time{f' (most: {named})' if named else ''}, and cannot react there; penalise torques"
        ]


def differences(eval_results: Sequence[EvalResult]) -> List[str]:
    """Return the names of the task's settings that differ between results with the same disturbance."""
    first: Dict[str, LeggedRobotConfig] = {}
    pairs = [(one.env_cfg, first.setdefault(one.disturbance, one.env_cfg)) for one in eval_results]
    compared = ("robot", "sim", "terrain", "control", "commands", "terminations", "randomization", "gate")
    return [name for name in compared if any(getattr(cfg, name) != getattr(other, name) for cfg, other in pairs)]


def _means(rows: Sequence[Mapping[str, float]]) -> Dict[str, float]:
    return {name: statistics.fmean(row[name] for row in rows) for name in rows[0]}


def bootstrap_interval(values: Sequence[float]) -> Tuple[float, float]:
    """Return the 95 % bootstrap confidence interval of the mean of ``values``: percentiles of the means of RESAMPLES
    resamples. For few values it is too narrow."""
    draws = np.random.default_rng(0).integers(len(values), size=(RESAMPLES, len(values)))
    means = np.asarray(values)[draws].mean(axis=1)
    low, high = np.quantile(means, [(1 - 0.95) / 2, (1 + 0.95) / 2])
    return float(low), float(high)


def unmet_criteria(results: Sequence[Mapping[str, float]], limits: Mapping[str, float]) -> List[str]:
    """Return a sentence for each metric of each result that exceeds its limit."""
    return [
        f"{name} {result[name]:.4f} > {limit}"
        for name, limit in limits.items()
        for result in results
        if not result[name] <= limit
    ]


@torch.no_grad()
def measure_drift(env: LeggedRobot, policy: ActingPolicy) -> Dict[str, float]:
    """Return the STANDING_METRICS of robots in the task of :func:`for_standing`."""
    control_dt = env.cfg.sim.control_dt
    settling, steps = round(SETTLING_TIME / control_dt), round(DRIFT_TIME / control_dt)
    fallen = torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
    start = env.sim.root_pos.clone()
    for i, done in enumerate(run(env, policy, settling + steps), start=1):
        if i == settling:
            start = env.sim.root_pos.clone()
        fallen |= done
    drift = (env.sim.root_pos - start)[:, :2].norm(dim=1)[~fallen]
    mean, largest = (float(drift.mean()), float(drift.max())) if len(drift) else (float("nan"),) * 2
    return {"standing_drift": mean, "standing_drift_max": largest, "standing_falls": float(fallen.float().mean())}


def finite(value: Any) -> Any:
    """Return a nested value with None for numbers that are not finite, for JSON."""
    if isinstance(value, dict):
        return {name: finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
