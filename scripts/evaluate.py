"""Judge a trained policy: `python scripts/evaluate.py --task go2_flat`. Ends with one line of JSON."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.command_line import Arguments, parse, usage_errors


@dataclass(frozen=True)
class Flags:
    """What to evaluate, apart from the config."""

    load_run: str = "-1"
    """Folder of the run; -1 for the newest."""
    checkpoint: int = -1
    """Iteration to evaluate; -1 for the newest."""
    num_envs: int = 256
    """Robots that walk at once."""
    seconds: float = 20.0
    """Time that each robot walks [s]."""
    num_seeds: int = 1
    """Repetitions, each with other commands and robots."""
    pushes: bool = False
    """Push the robots as in training."""


def main(args: Arguments) -> int:
    flags, cfg, run = args.flags, args.cfg, args.run
    assert run is not None  # parse() was told to find one
    with usage_errors():
        from rich.console import Console
        from rich.table import Table

        from rsl_rl.runners.loading import load_policy
        from rsl_rl.tasks.evaluation import evaluate, for_evaluation, gate_misses
        from rsl_rl.utils.seeding import require_device

        for name in ("num_envs", "seconds", "num_seeds"):
            if getattr(flags, name) <= 0:
                raise ValueError(f"--{name} {getattr(flags, name)}: give a positive number")
        require_device("sim_device", cfg.sim_device)
        env_cfg = for_evaluation(cfg.env, flags.num_envs, flags.seconds, flags.pushes)
        env = env_cfg.build(cfg.sim_device, seed=cfg.seed + 1000)
        loaded = load_policy(cfg, env, run, flags.checkpoint)

    results = []
    for i in range(flags.num_seeds):
        env = env if i == 0 else env_cfg.build(cfg.sim_device, seed=cfg.seed + 1000 + i)
        results.append(evaluate(env, loaded.policy, flags.seconds))
    mean = {name: sum(result[name] for result in results) / len(results) for name in results[0]}
    limits = cfg.env.gate
    table = Table(title=f"{loaded.checkpoint}: {flags.num_envs} robots, {flags.seconds:g} s, {flags.num_seeds} seed(s)")
    for column in ("", "mean", *(f"seed {i}" for i in range(len(results)) if len(results) > 1), "gate"):
        table.add_column(column, justify="left" if not column else "right")
    for name, value in mean.items():
        seeds = [f"{result[name]:.4f}" for result in results if len(results) > 1]
        table.add_row(name, f"{value:.4f}", *seeds, f"<= {limits[name]}" if name in limits else "")
    Console().print(table)
    misses = gate_misses(results, limits)
    print("gate passed" if not misses else f"gate missed: {'; '.join(misses)}")
    print(
        json.dumps(
            {**mean, "env_steps": loaded.env_steps, "checkpoint": str(loaded.checkpoint), "gate_passed": not misses}
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(parse(Flags, __doc__ or "", from_run=True)))
