"""How well a policy follows each of its reference motions: by clip, and by the time in it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Dict, List, NamedTuple, Sequence

import torch
from torch import Tensor

from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.evaluation.conditions import ActingPolicy
from rsl_rl.evaluation.gait_metrics import own_metrics
from rsl_rl.tasks.legged_robot import LeggedRobot
from rsl_rl.tasks.mdp.motion import Reference
from rsl_rl.tasks.robot_state import RobotState

LOOP_TIME = 10.0
"""Time for which a loop is followed [s]."""

BIN_TIME = 0.1
"""Time in the clip over which errors are averaged [s]."""


class ClipResult(NamedTuple):
    """How N robots have followed a clip from its first frame on, once each."""

    name: str
    episodes: int
    failures: int  # episodes that ended before the end of the clip
    errors: Dict[str, float]  # means over the steps before a failure, of each metric of env.metrics; NaN without one
    by_time: Dict[str, List[float]]  # the same in bins of BIN_TIME of the time in the clip; NaN without a step

    @property
    def success_rate(self) -> float:
        """Share of the episodes that came to the end of the clip."""
        return 1 - self.failures / self.episodes


def tracks_motions(env: LeggedRobot) -> bool:
    """Return whether the robots of a task follow reference motions."""
    return bool(env.commands.clips)


def for_tracking(cfg: LeggedRobotConfig) -> LeggedRobotConfig:
    """Return the task of an evaluation without ends of episodes but failures."""
    terms = cfg.terminations.terms
    failures = {name: None if term is not None and term.time_out else term for name, term in terms.items()}
    return replace(cfg, episode_length=1e5, terminations=replace(cfg.terminations, terms=failures))


@torch.no_grad()
def measure_tracking(env: LeggedRobot, policy: ActingPolicy, loop_time: float = LOOP_TIME) -> List[ClipResult]:
    """Let the robots of a task of :func:`for_tracking` follow its clips, an equal share of them each; loops for
    ``loop_time`` [s]."""
    reference, metrics = env.state.part(Reference), own_metrics(env.cfg)
    count, device, dt = len(reference.names), env.device, env.cfg.sim.control_dt
    if env.num_envs < count:
        raise ValueError(f"num_envs={env.num_envs} is fewer than the {count} clips; give at least one robot for each")
    clip = torch.arange(env.num_envs, device=device) % count
    length = torch.where(reference.loops, torch.full_like(reference.lengths, loop_time), reference.lengths)
    period = torch.where(reference.loops, reference.lengths, length)  # of the bins [s]
    bins = [max(1, math.ceil(seconds / BIN_TIME - 1e-3)) for seconds in period.tolist()]
    most, end = max(bins), length[clip]
    sums = torch.zeros(count * most, 1 + len(metrics), dtype=torch.float64, device=device)
    running = torch.ones(env.num_envs, dtype=torch.bool, device=device)
    failed = torch.zeros_like(running)

    def record(state: RobotState, done: Tensor) -> None:
        """Add a step of the robots that are in their first episode, before the resets."""
        nonlocal running, failed
        failed |= running & done & ~state.timed_out
        running &= ~done & (reference.time <= end + dt / 2)
        values = torch.stack([torch.ones_like(end), *(metric(state) for metric in metrics.values())], dim=1)
        place = reference.phase * period[clip] / BIN_TIME
        row = clip * most + place.long().clamp(max=most - 1)
        sums.index_add_(0, row, torch.where(running.unsqueeze(1), values, 0.0).double())

    reference.start_at(clip, torch.zeros_like(end))
    env.observers.append(record)
    obs = env.reset()
    policy.reset()
    for _ in range(math.ceil(float(length.max()) / dt)):
        obs, _, done, _ = env.step(policy(obs))
        policy.reset(done)
    env.observers.remove(record)
    reference.start_at(clip, torch.full_like(end, math.nan))
    table = sums.view(count, most, -1).cpu()
    results = []
    for i, name in enumerate(reference.names):
        steps, own = table[i, : bins[i], :1], table[i, : bins[i], 1:]
        means = (own.sum(dim=0) / steps.sum()).tolist()
        by_time = (own / steps).t().tolist()  # 0 / 0 is NaN
        results.append(
            ClipResult(
                name,
                int((clip == i).sum()),
                int((failed & (clip == i)).sum()),
                dict(zip(metrics, means)),
                dict(zip(metrics, by_time)),
            )
        )
    return results


def metrics_of(results: Sequence[ClipResult]) -> Dict[str, float]:
    """Return the TRACKING_METRICS of the results of a seed."""
    return {"tracking_failures": sum(one.failures for one in results) / max(1, sum(one.episodes for one in results))}


def merge_clips(seeds: Sequence[Sequence[ClipResult]]) -> List[ClipResult]:
    """Return the results by clip over several seeds: sums of episodes and failures, means of errors."""
    merged = []
    for own in zip(*seeds):
        names = own[0].errors
        merged.append(
            ClipResult(
                own[0].name,
                sum(one.episodes for one in own),
                sum(one.failures for one in own),
                {name: _mean_rows([[one.errors[name]] for one in own])[0] for name in names},
                {name: _mean_rows([one.by_time[name] for one in own]) for name in names},
            )
        )
    return merged


def _mean_rows(rows: Sequence[Sequence[float]]) -> List[float]:
    return torch.tensor(rows, dtype=torch.float64).nanmean(dim=0).tolist()


def clip_rows(results: Sequence[ClipResult]) -> List[List[str]]:
    """Return the table of the results by clip: a head and rows of text."""
    names = list(results[0].errors)
    rows = [["clip", "episodes", "success", *names, f"worst {BIN_TIME:g} s"]]
    for one in results:
        rows.append(
            [
                one.name,
                str(one.episodes),
                f"{one.success_rate:.1%}",
                *("-" if math.isnan(one.errors[name]) else f"{one.errors[name]:.4f}" for name in names),
                _hardest(one, names[0]) if names else "",
            ]
        )
    return rows


def _hardest(result: ClipResult, name: str) -> str:
    """Return the largest of the means by time of a metric, and when that is."""
    values = [(value, i * BIN_TIME) for i, value in enumerate(result.by_time[name]) if not math.isnan(value)]
    if not values:
        return ""
    value, time = max(values)
    return f"{value:.4f} at {time:.1f} s"
