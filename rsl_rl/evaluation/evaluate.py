"""Judge a policy on a legged robot by numbers that do not depend on how it was trained."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from typing import Dict, List, Mapping, NamedTuple, Optional, Protocol, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.env.vec_env import Observations
from rsl_rl.evaluation.gait_metrics import CommandBin, GaitMeter, pool
from rsl_rl.evaluation.recorder import Recorder
from rsl_rl.tasks.legged_robot import LeggedRobot
from rsl_rl.utils.registry import suggest

_COMMAND_PERIOD = 10.0  # [s], whatever the task trains with

RESAMPLES = 10_000
"""Draws with replacement behind each bootstrap interval."""


class ActingPolicy(Protocol):
    """What is judged: observations to actions [N, A], and a way to forget the episodes that ended."""

    def __call__(self, obs: Observations) -> Tensor: ...

    def reset(self, dones: Optional[Tensor] = None) -> None: ...


def for_evaluation(cfg: LeggedRobotConfig, num_envs: int, seconds: float, pushes: bool = False) -> LeggedRobotConfig:
    """Return the task as the gate wants it: no observation noise, moving commands from the same ranges, pushes only if
    asked.

    The robots keep the different frictions, payloads and gains of training.
    """
    if not isinstance(cfg, LeggedRobotConfig):
        raise ValueError(
            f"{type(cfg).__name__} describes no legged robot, so there is no gait to judge or to show; take go2_flat"
        )
    if seconds < cfg.sim.control_dt:
        raise ValueError(f"seconds={seconds} is less than one control step of {cfg.sim.control_dt:g} s; give more")
    unknown = [name for name in cfg.gate if name not in GaitMeter.NAMES]
    if unknown:
        raise ValueError(
            f"gate names '{unknown[0]}'; known: {', '.join(GaitMeter.NAMES)}.{suggest(unknown[0], GaitMeter.NAMES)}"
        )
    randomization = cfg.randomization if pushes else replace(cfg.randomization, push_interval=0.0)
    noiseless = {name: replace(term, noise=0.0) for name, term in cfg.policy_observations.items()}
    return replace(
        cfg,
        num_envs=num_envs,
        episode_length=2 * seconds,  # no time-outs while we look
        policy_observations=noiseless,
        randomization=randomization,
        commands=replace(cfg.commands, standing_fraction=0.0, resampling_time=_COMMAND_PERIOD),
    )


class Repetition(NamedTuple):
    """What robots did in one evaluation."""

    numbers: Dict[str, float]  # GaitMeter.MEANINGS says what they are
    falls: Dict[str, float]  # per robot, by cause; they add up to fall_rate
    tracking: List[CommandBin]
    recording: Dict[str, Tensor]  # of the first robot, see Recorder


def evaluate(env: LeggedRobot, policy: ActingPolicy, seconds: float) -> Dict[str, float]:
    """Walk every robot for a time and return the numbers of :attr:`GaitMeter.MEANINGS`."""
    return observe(env, policy, seconds).numbers


@torch.no_grad()
def observe(env: LeggedRobot, policy: ActingPolicy, seconds: float) -> Repetition:
    """Walk every robot for a time and return all that there is to say about it."""
    meter, recorder = GaitMeter(env.cfg, env.robot), Recorder(1, env.cfg.control.action_scale)
    obs = env.reset()
    env.observers += [meter, recorder]
    policy.reset()
    for _ in range(round(seconds / env.cfg.sim.control_dt)):
        obs, _, done, _ = env.step(policy(obs))
        policy.reset(done)
    env.observers.remove(meter)
    env.observers.remove(recorder)
    return Repetition(meter.result(), meter.falls(), meter.tracking(), recorder.result())


@dataclass(frozen=True)
class Judgement:
    """A checkpoint, and what robots did with it in each of several repetitions."""

    name: str
    """What tells it from the others of a comparison."""
    checkpoint: str
    env_steps: int
    """That it was trained for."""
    env_cfg: LeggedRobotConfig
    """What it was judged in."""
    foot_names: Tuple[str, ...]
    repetitions: Sequence[Repetition]

    @property
    def numbers(self) -> Dict[str, float]:
        """Means over the repetitions."""
        return _means([repetition.numbers for repetition in self.repetitions])

    @property
    def intervals(self) -> Dict[str, Tuple[float, float]]:
        """Where the means lie, by :func:`bootstrap_interval`; empty for a single repetition."""
        if len(self.repetitions) < 2:
            return {}
        values = {name: [repetition.numbers[name] for repetition in self.repetitions] for name in self.numbers}
        return {name: bootstrap_interval(value) for name, value in values.items()}

    @property
    def falls(self) -> Dict[str, float]:
        """Falls per robot, by cause."""
        return _means([repetition.falls for repetition in self.repetitions])

    @property
    def tracking(self) -> List[CommandBin]:
        """The samples of all repetitions together."""
        return pool([repetition.tracking for repetition in self.repetitions])

    @property
    def misses(self) -> List[str]:
        """What keeps it from passing the gate."""
        return gate_misses([repetition.numbers for repetition in self.repetitions], self.env_cfg.gate)


def differences(judgements: Sequence[Judgement]) -> List[str]:
    """Name the settings by which the judgements were not made alike, as runs with configs of their own bring them."""
    first, compared = judgements[0].env_cfg, ("robot", "sim", "commands", "terminations", "randomization", "gate")
    return [name for name in compared if any(getattr(one.env_cfg, name) != getattr(first, name) for one in judgements)]


def _means(rows: Sequence[Mapping[str, float]]) -> Dict[str, float]:
    return {name: statistics.fmean(row[name] for row in rows) for name in rows[0]}


def bootstrap_interval(values: Sequence[float], level: float = 0.95, seed: int = 0) -> Tuple[float, float]:
    """Return between which two values the mean of as many repetitions lies with a probability of ``level``.

    By the percentiles of the means of RESAMPLES draws with replacement. Of a few repetitions, it is too narrow: three
    say little about the spread of a fourth.
    """
    draws = np.random.default_rng(seed).integers(len(values), size=(RESAMPLES, len(values)))
    means = np.asarray(values)[draws].mean(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def gate_misses(results: Sequence[Mapping[str, float]], limits: Mapping[str, float]) -> List[str]:
    """Name each number of the results that exceeds its limit, in every repetition; an empty list is a pass."""
    return [
        f"{name} {result[name]:.4f} > {limit}"
        for name, limit in limits.items()
        for result in results
        if not result[name] <= limit
    ]
