"""Evaluate a policy on a legged robot with metrics that do not depend on how it was trained."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from typing import Dict, List, Mapping, NamedTuple, Optional, Protocol, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

from rsl_rl.config.mdp import EventTerm, ObservationGroupConfig, RandomizationConfig
from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.env.vec_env import Observations
from rsl_rl.evaluation.gait_metrics import CommandBin, GaitMetrics, merge_bins
from rsl_rl.evaluation.recorder import Recorder
from rsl_rl.tasks.legged_robot import LeggedRobot
from rsl_rl.utils.registry import suggest

COMMAND_PERIOD = 10.0
"""Time after which robots get new commands in an evaluation [s], for every task."""

RESAMPLES = 10_000
"""Resamples of each bootstrap interval."""


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
    randomization = cfg.randomization if pushes else without_disturbances(cfg.randomization)
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
        observations={name: _without_noise(group) for name, group in cfg.observations.items()},
        randomization=replace(randomization, terms=_without_schedules(randomization.terms)),
        commands=commands,
        terrain=replace(cfg.terrain, curriculum=False),
    )


def _without_noise(group: ObservationGroupConfig) -> ObservationGroupConfig:
    return group.with_terms({name: replace(term, noise=0.0, bias=0.0) for name, term in group.terms.items()})


def _without_schedules(terms: Mapping[str, EventTerm]) -> Dict[str, EventTerm]:
    """Return events whose ranges are those of the end of the training."""
    ended = {}
    for name, term in terms.items():
        schedule = term.params.get("schedule")
        final = {"schedule": {**schedule, "steps": 0}} if schedule else {}
        ended[name] = replace(term, params={**term.params, **final})
    return ended


def without_disturbances(cfg: RandomizationConfig) -> RandomizationConfig:
    """Return randomisation without pushes and without other events at random times."""
    return cfg.with_terms({name: replace(x, period=0.0) for name, x in cfg.terms.items() if x.mode == "interval"})


class SeedResult(NamedTuple):
    """Result of an evaluation with one seed."""

    metrics: Dict[str, float]  # described by GaitMetrics.DESCRIPTIONS
    falls: Dict[str, float]  # per robot, by cause; their sum is fall_rate
    tracking: List[CommandBin]
    recording: Dict[str, Tensor]  # of the first robot, see Recorder


def evaluate(env: LeggedRobot, policy: ActingPolicy, seconds: float) -> Dict[str, float]:
    """Run every robot for a time [s] and return the metrics of :attr:`GaitMetrics.DESCRIPTIONS`."""
    return evaluate_seed(env, policy, seconds).metrics


@torch.no_grad()
def evaluate_seed(env: LeggedRobot, policy: ActingPolicy, seconds: float) -> SeedResult:
    """Run every robot for a time [s]; return metrics, falls, tracking errors and a recording."""
    metrics, recorder = GaitMetrics(env.cfg, env.robot), Recorder(1, env.action_scale)
    obs = env.reset()
    env.observers += [metrics, recorder]
    policy.reset()
    for _ in range(round(seconds / env.cfg.sim.control_dt)):
        obs, _, done, _ = env.step(policy(obs))
        policy.reset(done)
    env.observers.remove(metrics)
    env.observers.remove(recorder)
    return SeedResult(metrics.result(), metrics.falls(), metrics.tracking(), recorder.result())


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

    @property
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


def differences(eval_results: Sequence[EvalResult]) -> List[str]:
    """Return the names of the task's settings that differ between results with the same disturbance."""
    first: Dict[str, LeggedRobotConfig] = {}
    pairs = [(one.env_cfg, first.setdefault(one.disturbance, one.env_cfg)) for one in eval_results]
    compared = ("robot", "sim", "terrain", "control", "commands", "terminations", "randomization", "gate")
    return [name for name in compared if any(getattr(cfg, name) != getattr(other, name) for cfg, other in pairs)]


def _means(rows: Sequence[Mapping[str, float]]) -> Dict[str, float]:
    return {name: statistics.fmean(row[name] for row in rows) for name in rows[0]}


def bootstrap_interval(values: Sequence[float], level: float = 0.95, seed: int = 0) -> Tuple[float, float]:
    """Return the bootstrap confidence interval of the mean of ``values``.

    It is given by percentiles of the means of RESAMPLES resamples. For few values it is too narrow.
    """
    draws = np.random.default_rng(seed).integers(len(values), size=(RESAMPLES, len(values)))
    means = np.asarray(values)[draws].mean(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def unmet_criteria(results: Sequence[Mapping[str, float]], limits: Mapping[str, float]) -> List[str]:
    """Return a sentence for each metric of each result that exceeds its limit."""
    return [
        f"{name} {result[name]:.4f} > {limit}"
        for name, limit in limits.items()
        for result in results
        if not result[name] <= limit
    ]
