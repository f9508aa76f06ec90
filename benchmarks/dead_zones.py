"""Compare dead zones that the audit predicts with those of trained policies: python -m benchmarks.dead_zones

Each variant of the rewards of go2_flat is audited and trained; its policy is measured. A training takes minutes.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Tuple

import tyro
from rich.console import Console
from rich.table import Table

from benchmarks.training import as_arguments

_TERM = "env.rewards.terms"
_NO_GAIT = (
    f"{_TERM}.foot_timing.weight=0",
    f"{_TERM}.feet_air_time.weight=0",
    "env.control.default_joint_pos=None",
    "env.commands.slow_fraction=0",
)
_EFFORT = (f"{_TERM}.torques.weight=-5e-4", f"{_TERM}.action_rate.weight=-0.05")


def _sigma(value: float) -> Tuple[str, ...]:
    return tuple(f"{_TERM}.track_{name}.params.tracking_sigma={value}" for name in ("lin_vel", "yaw_rate"))


VARIANTS: Dict[str, Tuple[str, ...]] = {
    "as shipped": (),
    "sigma 0.05": _sigma(0.05),
    "sigma 1": _sigma(1.0),
    "foot_timing 0.3": (f"{_TERM}.foot_timing.weight=0.3",),
    "no feet_air_time": (f"{_TERM}.feet_air_time.weight=0",),
    "torques and action_rate times 5": _EFFORT,
    "no terms of the gait": _NO_GAIT,
    "no terms of the gait, sigma 0.05": (*_NO_GAIT, *_sigma(0.05)),
    "no terms of the gait, sigma 1": (*_NO_GAIT, *_sigma(1.0)),
    "no terms of the gait, torques and action_rate times 5": (*_NO_GAIT, *_EFFORT),
}
"""Settings of each variant for train.py, as FIELD=VALUE."""


@dataclass(frozen=True)
class DeadZones:
    """Train variants of the rewards of go2_flat, and compare their dead zones with the predicted ones."""

    variants: Tuple[str, ...] = tuple(VARIANTS)
    """Names of the variants."""
    seed: int = 101
    iterations: int = 220
    out: Path = Path("dead_zones.jsonl")
    """File to which each result is appended; variants that it has are not trained again."""

    def __post_init__(self):
        for name in set(self.variants) - set(VARIANTS):
            raise ValueError(f"--variants {name}: choose from {', '.join(map(repr, VARIANTS))}")


def measure(cfg: DeadZones, name: str) -> Dict[str, Any]:
    """Return the dead zones of a variant by direction: predicted from its rewards, and of its trained policy."""
    from rsl_rl.cli.experiments import Experiments
    from rsl_rl.evaluation.audit import audit, for_policy
    from rsl_rl.runners.loading import load_policy
    from rsl_rl.utils.config_io import from_dict, read_yaml

    folder = Path(tempfile.mkdtemp())
    try:
        flags = (f"seed={cfg.seed}", f"max_iterations={cfg.iterations}", f"log_root={folder}", "logger=none")
        command = [sys.executable, "-m", "rsl_rl", "train", "--task", "go2_flat"]
        subprocess.run(command + as_arguments((*flags, *VARIANTS[name])), check=True, stdout=subprocess.DEVNULL)
        (run,) = (path.parent for path in folder.rglob("config.yaml"))
        trained: Any = from_dict(Experiments().load("go2_flat"), read_yaml(run / "config.yaml"))
        env = for_policy(trained.env, 1).build("cpu", seed=0)
        policy = load_policy(trained, env, run).policy
        result = audit(trained.env, policy)
        return {"variant": name, "predicted": audit(trained.env).predicted, "measured": result.measured}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    cfg = tyro.cli(DeadZones, description=__doc__)
    lines = cfg.out.read_text().splitlines() if cfg.out.exists() else []
    results = {record["variant"]: record for record in map(json.loads, lines)}
    for name in cfg.variants:
        if name not in results:
            print(f"{name}: training", flush=True)
            results[name] = measure(cfg, name)
            with cfg.out.open("a") as file:
                print(json.dumps(results[name]), file=file)
    table = Table("variant", "direction", "predicted", "measured", title="Dead zones [m/s, rad/s]")
    for name in cfg.variants:
        for direction, predicted in results[name]["predicted"].items():
            table.add_row(name, direction, f"{predicted:.2f}", f"{results[name]['measured'][direction]:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
