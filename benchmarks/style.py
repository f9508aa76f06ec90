"""Measure whether a policy walks in the style that it is told: strides by gait, and errors of the velocity.

    python -m benchmarks.style logs/go2_style/2026-01-31_12-00-00 --seeds 3

For each style of the run's task, robots walk with commands from the ranges of the training, and a stride is of the gait
of that name if every foot lands when the gait says, within 0.15 of the stride. Then the styles change every 5 s, and
"told" is the share of strides that are of the told gait, from 1 s after each change on. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, Tuple

import numpy as np
import torch

from configs import EXPERIMENTS
from rsl_rl.evaluation.conditions import for_evaluation, run
from rsl_rl.evaluation.evaluate import Recorder, finite
from rsl_rl.evaluation.footfalls import share_of_gait, shares, stride_phases
from rsl_rl.evaluation.gait_metrics import GaitMetrics
from rsl_rl.motion.gaits import GAITS, QUADRUPED
from rsl_rl.runners.loading import load_policy
from rsl_rl.utils.checkpoints import Which, checkpoint_id, find_checkpoint
from rsl_rl.utils.config_io import from_dict, read_yaml

MOVING = 0.3
"""Smallest commanded speed of a robot whose strides count [m/s]."""

SETTLED = 1.0
"""Time after a change of the style from which strides count [s]."""


@torch.no_grad()
def measure(
    cfg: Any,
    folder: Path,
    checkpoint: Which,
    styles: Tuple[str, ...],
    style: str,
    num_envs: int,
    seconds: float,
    seed: int,
) -> Dict[str, float]:
    """Return errors of the velocity, falls, and the share of strides of each gait, of robots that are told a style; an
    empty one changes every 5 s."""
    task = for_evaluation(cfg.env, num_envs, seconds)
    if styles:
        own = {"only": style} if style else {"resampling_time": 5.0}
        task = replace(task, commands=task.commands.with_params("style", **own))
    env = task.build("cpu", seed=seed)
    policy = load_policy(cfg, env, folder, checkpoint).policy
    metrics, recorder = GaitMetrics(env.cfg, env.robot), Recorder(env, num_envs)
    env.observers += [metrics, recorder]
    told = []
    for _ in run(env, policy, round(seconds / env.cfg.sim.control_dt)):
        told.append(env.state.commands["style"].argmax(dim=1) if styles else torch.zeros(num_envs))
    found, recording = metrics.result(), recorder.result()
    moving = recording["command"][:, :, :2].norm(dim=2) > MOVING  # [T, N]
    ended = recording["done"] | ~moving  # a stride counts where the robot is told to move all the time
    gaits = {name: [gait.touchdown[place] for place in QUADRUPED] for name, gait in GAITS.items()}
    errors = {name: found[name] for name in ("lin_vel_error", "yaw_rate_error", "fall_rate")}
    contact = recording["foot_contact"].numpy()
    if style or not styles:
        phases = stride_phases(contact, ended.numpy())
        return {**errors, "strides": len(phases), **shares(phases, gaits)}
    steps, right, count = round(SETTLED / env.cfg.sim.control_dt), 0.0, 0
    for i, name in enumerate(styles):
        phases = stride_phases(contact, (ended | ~settled(torch.stack(told) == i, steps)).numpy())
        right, count = right + np.nansum(share_of_gait(phases, gaits[name])) * len(phases), count + len(phases)
    return {**errors, "strides": count, "told": float(right / max(count, 1))}


def settled(told: torch.Tensor, steps: int) -> torch.Tensor:
    """Return where a style has been told for more than ``steps`` steps, [T, N] bool."""
    count, out = torch.zeros(told.shape[1]), []
    for row in told:
        count = (count + 1) * row
        out.append(count > steps)
    return torch.stack(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--checkpoint", type=int, default=-1)
    parser.add_argument("--num_envs", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--seeds", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    values = read_yaml(arguments.run / "config.yaml")
    cfg: Any = from_dict(EXPERIMENTS.load(values["task"]), values)
    path = find_checkpoint(arguments.run, arguments.checkpoint)
    terms = cfg.env.commands.terms
    styles = tuple(terms["style"].params["styles"]) if "style" in terms else ()
    results = []
    for style in (*styles, ""):
        for seed in range(1001, 1001 + arguments.seeds):
            size = (arguments.num_envs, arguments.seconds, seed)
            found = measure(cfg, arguments.run, checkpoint_id(path), styles, style, *size)
            row = {"style": style or "changing" * bool(styles), "seed": seed, **found}
            results.append(row)
            shown = {name: round(x, 3) if isinstance(x, float) else x for name, x in row.items()}
            print(shown, flush=True)
    print(json.dumps(finite(results)))


if __name__ == "__main__":
    main()
