"""Print a digest of the weights that a training ends with, to prove that a change keeps results bit by bit.

    python -m benchmarks.weights go2_flat go2_flat_blind --num_updates 10

Run it in two checkouts on the same machine with equal versions: equal digests mean equal weights. Under torchrun
(`torchrun --nproc_per_node=2 -m benchmarks.weights toy`) each rank trains in its own environments, and rank 0 prints.
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Sequence

import torch

from configs import EXPERIMENTS
from rsl_rl.config.algorithm import DistillationConfig
from rsl_rl.config.learn import LearnConfig
from rsl_rl.runners import OnPolicyRunner

NUM_ENVS = 64
TASKS = (
    "toy",
    "go2_flat",
    "go2_flat_blind",
    "go2_flat_mlp_mirror_loss",
    "far_goal_rnd",
    "go2_flat_distilled",
    "target_sum",
    "gym_pendulum",
    "go2_rough",
)


def with_teacher(cfg: Any, folder: Path) -> Any:
    """Return the config of a distillation with an untrained teacher, saved in a folder; other configs as they are."""
    if not isinstance(cfg.algorithm, DistillationConfig):
        return cfg
    groups = cfg.algorithm.teacher_groups
    policy = replace(cfg.algorithm.teacher, actor_groups=groups, critic_groups=groups)
    OnPolicyRunner(cfg.env.build(), LearnConfig(policy=policy)).save(folder / "model_1.pt")
    return replace(cfg, algorithm=replace(cfg.algorithm, teacher_run=str(folder)))


def train(task: str, num_updates: int, num_envs: int, fused: bool) -> OnPolicyRunner:
    """Return the runner after a training of a task with seed 1."""
    torch.manual_seed(1)
    cfg = EXPERIMENTS.load(task)()
    cfg = replace(cfg, env=replace(cfg.env, num_envs=num_envs), runner=replace(cfg.runner, max_iterations=num_updates))
    cfg = replace(cfg, acceleration=replace(cfg.acceleration, fused=fused))
    with tempfile.TemporaryDirectory() as folder:
        cfg = with_teacher(cfg, Path(folder))
        torch.manual_seed(1)
        runner = OnPolicyRunner(cfg.env.build(), cfg)
        runner.learn(num_updates)
    return runner


def digest(runner: OnPolicyRunner) -> str:
    """Return the beginning of the SHA-256 of the policy's tensors and the optimiser's."""
    total = hashlib.sha256()
    state = runner.alg.state_dict()
    for tensor in [*state["model_state_dict"].values(), *_tensors(state["optimizer_state_dict"])]:
        total.update(tensor.detach().contiguous().numpy().tobytes())
    return total.hexdigest()[:16]


def _tensors(state: Any) -> Sequence[torch.Tensor]:
    if isinstance(state, torch.Tensor):
        return [state]
    values = state.values() if isinstance(state, dict) else state if isinstance(state, (list, tuple)) else ()
    return [tensor for value in values for tensor in _tensors(value)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("tasks", nargs="*", default=TASKS)
    parser.add_argument("--num_updates", type=int, default=10)
    parser.add_argument("--num_envs", type=int, default=NUM_ENVS)
    parser.add_argument("--plain", action="store_true", help="without acceleration")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for task in arguments.tasks:
        runner = train(task, arguments.num_updates, arguments.num_envs, not arguments.plain)
        if runner.collective.rank == 0:
            print(f"{task:28} {digest(runner)}", flush=True)


if __name__ == "__main__":
    main()
