"""Evaluate a policy on a legged robot with metrics that do not depend on how it was trained."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.evaluation.conditions import DRIFT_TIME, SETTLING_TIME, ActingPolicy, drift_of, run
from rsl_rl.evaluation.endurance import Endurance, JoystickResult, failure_rates, merge
from rsl_rl.evaluation.gait_metrics import CommandBin, GaitMetrics, merge_bins
from rsl_rl.evaluation.motion_tracking import ClipResult, merge_clips
from rsl_rl.tasks.legged_robot import LeggedRobot
from rsl_rl.tasks.robot_state import RobotState

RESAMPLES = 10_000
"""Resamples of each bootstrap interval."""

STANDING_METRICS = {
    "standing_drift": "mean horizontal drift in 10 s of robots that are to stand [m]",
    "standing_drift_max": "largest of these drifts [m]",
    "standing_falls": "share of robots that fell while they were to stand",
}
"""Description and unit of each metric of :func:`measure_drift`."""

SATURATION_LIMIT = 0.05
"""Torque saturation above which a report warns: on a robot, little torque is left to react with."""

_NAMED_JOINTS = 3  # in a warning


class Recorder:
    """An observer of :class:`LeggedRobot` that records every step of the first robots."""

    def __init__(self, env: LeggedRobot, num_robots: int):
        self._n, self._commands = num_robots, env.commands
        self._action_scale = env.action_scale  # [J] [rad] per unit of action
        self._steps: List[Dict[str, Tensor]] = []

    def __call__(self, state: RobotState, done: Tensor) -> None:
        """Record one step, before the resets."""
        sim = state.sim
        step = {
            "pose": torch.cat((sim.root_pos, sim.root_quat, sim.joint_pos), dim=1),  # [n, 7 + J]
            "command": state.requested_command,  # [n, 3] vx, vy [m/s], yaw rate [rad/s]
            "velocity": state.planar_velocity,  # [n, 3] the same, measured
            "base_height": state.base_height,  # [n] above the ground underneath [m]
            "foot_contact": state.foot_contact,  # [n, F]
            "target": state.default_joint_pos + self._action_scale * state.action,  # [n, J] [rad]
            "target_change": self._action_scale * (state.action - state.previous_action),  # [n, J] [rad] in this step
            "torque": state.joint_torque,  # [n, J] [N m]
            "done": done,  # [n]
            "fallen": done & ~state.timed_out,  # [n]
            **self._commands.recorded(),
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
    joystick: Optional[JoystickResult] = None  # if it was asked for; its metrics are in ``metrics`` too
    clips: Sequence[ClipResult] = ()  # of a task with reference motions

    def with_joystick(self, joystick: JoystickResult) -> SeedResult:
        """Return the result with that of a joystick evaluation."""
        return self._replace(joystick=joystick, metrics={**self.metrics, **joystick.metrics})


def evaluate(env: LeggedRobot, policy: ActingPolicy, seconds: float) -> Dict[str, float]:
    """Run every robot for a time [s] and return the metrics of :attr:`GaitMetrics.DESCRIPTIONS`."""
    return evaluate_seed(env, policy, seconds).metrics


@torch.no_grad()
def evaluate_seed(env: LeggedRobot, policy: ActingPolicy, seconds: float) -> SeedResult:
    """Run every robot for a time [s]; return metrics, falls, tracking errors and a recording."""
    metrics, recorder = GaitMetrics(env.cfg, env.robot), Recorder(env, 1)
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
    def joystick(self) -> Dict[str, Endurance]:
        """Endurance without and with pushes over all seeds; empty if it was not measured."""
        tests = [seed_result.joystick for seed_result in self.seed_results if seed_result.joystick is not None]
        if not tests:
            return {}
        return {
            "without pushes": merge([one.free for one in tests]),
            "with pushes": merge([one.pushed for one in tests]),
        }

    @property
    def clips(self) -> List[ClipResult]:
        """Results by clip of a task with reference motions, over all seeds; otherwise none."""
        return merge_clips([seed_result.clips for seed_result in self.seed_results])

    @property
    def not_measured(self) -> List[str]:
        """Success criteria of the task that need a joystick evaluation, if there was none."""
        return [name for name in self.env_cfg.gate if name not in self.metrics]

    @property
    def unmet(self) -> List[str]:
        """Success criteria that it does not meet, as sentences. Each seed has to meet them; failures per hour are those
        of all seeds together, because one failure in the share of a seed can be a larger rate than the limit."""
        rates = failure_rates(*self.joystick.values()) if self.joystick else {}
        results = [{**seed_result.metrics, **rates} for seed_result in self.seed_results]
        return list(dict.fromkeys(unmet_criteria(results, self.env_cfg.gate)))

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


def metric_names(eval_results: Sequence[EvalResult]) -> List[str]:
    """Return the names of all metrics; tasks may have different ones of their own."""
    return list(dict.fromkeys(name for one in eval_results for name in one.metrics))


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
    """Return a sentence for each metric of each result that exceeds its limit; a metric that a result does not have
    was not measured."""
    return [
        f"{name} {result[name]:.4f} > {limit}"
        for name, limit in limits.items()
        for result in results
        if name in result and not result[name] <= limit
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
    mean, largest = drift_of(start, env.sim.root_pos, fallen)
    return {"standing_drift": mean, "standing_drift_max": largest, "standing_falls": float(fallen.float().mean())}


def finite(value: Any) -> Any:
    """Return a nested value with None for numbers that are not finite, for JSON."""
    if isinstance(value, dict):
        return {name: finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
