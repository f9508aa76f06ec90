"""How long this library's learner takes, alone or in turns with another's."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Optional, Tuple

from rich.console import Console
from rich.table import Table
from typing_extensions import Literal

from benchmarks.pairing import PEER_PACKAGES, Spread, Worker, alternate, compare


@dataclass(frozen=True)
class Learner:
    """Collecting from an environment that does nothing, returns, and the update."""

    num_envs: int = 4096
    """Environments at once."""
    num_steps: int = 24
    """Steps of a rollout."""
    num_obs: int = 48
    """Size of an observation."""
    num_actions: int = 12
    """Size of an action."""
    policy: Literal["mlp", "gru", "lstm"] = "mlp"
    """Kind of network."""
    hidden_dims: Tuple[int, ...] = (512, 256, 128)
    """Units of each hidden layer, of actor and critic; behind the memory where there is one."""
    rnn_hidden_size: int = 256
    """Size of the memory."""
    done_rate: float = 0.005
    """Share of the steps that end an episode."""
    num_epochs: int = 5
    """Passes over a rollout."""
    num_mini_batches: int = 4
    """Gradient steps of a pass."""
    device: str = "cpu"
    """Where the networks are."""
    seed: int = 1
    """Of weights and rollout."""
    repeats: int = 5
    """Iterations that count."""
    warm_up: int = 1
    """Iterations before those."""
    peer: Optional[Path] = None
    """Folder with another rsl_rl, as pip's --target makes it; it takes turns with ours."""

    def __post_init__(self):
        for name in ("num_envs", "num_steps", "num_obs", "num_actions", "num_epochs", "num_mini_batches", "repeats"):
            if getattr(self, name) < 1:
                raise ValueError(f"--{name} {getattr(self, name)}: give a whole number of at least 1")
        if self.warm_up < 0:
            raise ValueError(f"--warm_up {self.warm_up}: give a whole number of at least 0")
        if not 0.0 <= self.done_rate <= 1.0:
            raise ValueError(f"--done_rate {self.done_rate} must lie in [0, 1]")
        if self.peer is not None and not (self.peer / "rsl_rl").is_dir():
            raise ValueError(
                f"--peer {self.peer} holds no rsl_rl; fill it with: pip install --no-deps --target {self.peer} "
                f"{PEER_PACKAGES}"
            )


def measure(cfg: Learner) -> Dict[str, Any]:
    """Time both learners in turn; print a table and return what it says."""
    settings = dataclasses.asdict(dataclasses.replace(cfg, peer=None))
    workers = {"ours": Worker("our_learner.py", settings)}
    try:
        if cfg.peer is not None:
            workers["peer"] = Worker("peer_learner.py", settings, cfg.peer.resolve())
        figures, ratios = compare(alternate(workers, cfg.repeats, cfg.warm_up))
    finally:
        for worker in workers.values():
            worker.stop()
    title = f"{cfg.policy}, {cfg.num_envs} environments x {cfg.num_steps} steps, median (least - most) of {cfg.repeats}"
    Console().print(_table(title, figures, ratios))
    medians = {worker: {name: spread.median for name, spread in own.items()} for worker, own in figures.items()}
    return {
        "benchmark": "learner",
        "settings": settings,
        "medians": medians,
        "ratios": {name: spread._asdict() for name, spread in ratios.items()},
        "update_samples_per_s": cfg.num_envs * cfg.num_steps / medians["ours"]["update"],
    }


def _table(title: str, figures: Dict[str, Dict[str, Spread]], ratios: Dict[str, Spread]) -> Table:
    table = Table(title=title)
    for column in ("", *figures, *(["peer / ours"] if ratios else [])):
        table.add_column(column, justify="right" if column else "left")
    for name in figures["ours"]:
        scale, unit = (1.0, "MB") if name == "peak_mb" else (1e3, "ms")
        cells = [
            f"{own[name].median * scale:.1f} {unit} ({own[name].low * scale:.1f} - {own[name].high * scale:.1f})"
            for own in figures.values()
        ]
        if ratios:
            cells.append(f"{ratios[name].median:.2f} ({ratios[name].low:.2f} - {ratios[name].high:.2f})")
        table.add_row(name.replace("_mb", " memory"), *cells)
    return table
