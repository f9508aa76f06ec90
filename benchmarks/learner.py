"""Measure the time of this library's learner, alone or alternating with another one."""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Tuple

from rich.console import Console
from rich.table import Table
from typing_extensions import Literal

from benchmarks.flags import require_counts, require_picture
from benchmarks.pairing import PEER_PACKAGES, Spread, Worker, alternate, ratios, spreads


@dataclass(frozen=True)
class Learner:
    """Time collecting from an environment that does nothing, computing returns, and the update.

    collect is the time of policy and storage for a rollout with its returns; gae that of returns and advantages only;
    update that of all gradient steps of an iteration; products that of the matrix products of collect only. The share
    of the peak is the speed of the update's matrix products, relative to products of large square float32 matrices.
    """

    num_envs: Tuple[int, ...] = (4096,)
    """Number of environments; one or several numbers."""
    num_steps: int = 24
    """Steps of a rollout."""
    num_obs: int = 48
    """Size of an observation."""
    num_actions: int = 12
    """Size of an action."""
    policy: Literal["mlp", "gru", "lstm"] = "mlp"
    """Kind of network."""
    hidden_dims: Tuple[int, ...] = (512, 256, 128)
    """Units of each hidden layer of actor and critic, after the memory if there is one."""
    rnn_hidden_size: int = 256
    """Size of the memory."""
    done_rate: float = 0.005
    """Share of the steps that end an episode."""
    num_epochs: int = 5
    """Passes over a rollout."""
    num_mini_batches: int = 4
    """Gradient steps of a pass."""
    device: str = "cpu"
    """Device of the networks."""
    cuda_graphs: bool = False
    """Ours, on a GPU: launch each step as one graph; its operations cannot be counted."""
    bfloat16: bool = False
    """Ours: compute the networks of the update in bfloat16."""
    compile: bool = False
    """Ours: compile the loss."""
    seed: int = 1
    """Seed of weights and rollout."""
    repeats: int = 5
    """Number of measurements, of two iterations each; the second is timed."""
    warm_up: int = 1
    """Measurements before those, which are not used."""
    peer: Optional[Path] = None
    """Folder with another rsl_rl, made by pip install --target; it alternates with ours."""
    before: Optional[Path] = None
    """Checkout of an earlier commit of this repository, made by git worktree; it alternates with ours too."""
    plot: Optional[Path] = None
    """PNG file for a plot of the time of each phase against the number of environments."""

    def __post_init__(self):
        require_counts(
            self,
            "num_envs",
            "num_steps",
            "num_obs",
            "num_actions",
            "num_epochs",
            "num_mini_batches",
            "repeats",
            "warm_up",
        )
        if not 0.0 <= self.done_rate <= 1.0:
            raise ValueError(f"--done_rate {self.done_rate} must lie in [0, 1]")
        require_picture(self, "plot")
        if self.peer is not None and not (self.peer / "rsl_rl").is_dir():
            raise ValueError(
                f"--peer {self.peer} holds no rsl_rl; fill it with: pip install --no-deps --target {self.peer} "
                f"{PEER_PACKAGES}"
            )
        if self.before is not None and not (self.before / "benchmarks" / "our_learner.py").is_file():
            raise ValueError(
                f"--before {self.before} is not a checkout of this repository; make one with: git worktree add"
            )


def measure(cfg: Learner) -> Dict[str, Any]:
    """Time both learners in turn; print a table for each number of environments and return the content."""
    draw = _drawing(cfg.plot)
    settings = dataclasses.asdict(dataclasses.replace(cfg, peer=None, before=None, plot=None))
    peak = _matmul_peak(settings)
    results = [_measure(cfg, {**settings, "num_envs": num_envs}, peak) for num_envs in cfg.num_envs]
    draw(results)
    return {"benchmark": "learner", "settings": settings, "matmul_peak_gflops": peak, "results": results}


def _drawing(path: Optional[Path]) -> Callable[[Sequence[Mapping[str, Any]]], None]:
    """Return a function that plots results, or does nothing; a missing matplotlib is an error here."""
    if path is None:
        return lambda results: None
    from benchmarks.plot import plot_phases

    return functools.partial(plot_phases, path=path)


def _matmul_peak(settings: Mapping[str, Any]) -> float:
    worker = Worker("matmul.py", settings)
    try:
        return worker.run()["gflops"]
    finally:
        worker.stop()


def _measure(cfg: Learner, settings: Mapping[str, Any], peak: float) -> Dict[str, Any]:
    num_envs = settings["num_envs"]
    workers = {"ours": Worker("our_learner.py", settings)}
    try:
        if cfg.peer is not None:
            workers["peer"] = Worker("peer_learner.py", settings, cfg.peer.resolve())
        if cfg.before is not None:
            script = cfg.before.resolve() / "benchmarks" / "our_learner.py"
            workers["before"] = Worker(str(script), settings, cfg.before.resolve())
        runs = alternate(workers, cfg.repeats, cfg.warm_up)
    finally:
        for worker in workers.values():
            worker.stop()
    counted = {name: [with_speed(run, peak) for run in own] for name, own in runs.items()}
    figures = {name: spreads(own) for name, own in counted.items()}
    compared = {name: _compare(counted["ours"], counted[name]) for name in counted if name != "ours"}
    title = f"{cfg.policy}, {num_envs} environments x {cfg.num_steps} steps, median (least-most) of {cfg.repeats}"
    Console().print(_table(title, f"matrix products reach {peak:.1f} GFLOP/s here", figures, compared))
    return {
        "num_envs": num_envs,
        "figures": {name: {key: spread._asdict() for key, spread in own.items()} for name, own in figures.items()},
        "ratios": {key: spread._asdict() for key, spread in compared.get("peer", {}).items()},
        "ratios_before": {key: spread._asdict() for key, spread in compared.get("before", {}).items()},
        "update_flops": {name: own[0]["update_flops"] for name, own in runs.items()},
        "update_samples_per_s": num_envs * cfg.num_steps / figures["ours"]["update"].median,
    }


def _compare(ours: Sequence[Mapping[str, float]], peer: Sequence[Mapping[str, float]]) -> Dict[str, Spread]:
    """Return the ratio peer / ours of each figure, pair by pair; with the products, also the ratio of the peer's
    collecting time to the time of the matrix products, which is an upper bound."""
    compared = ratios(ours, peer)
    if "products" in ours[0]:
        compared["products"] = Spread.of([b["collect"] / a["products"] for a, b in zip(ours, peer)])
    return compared


def with_speed(run: Mapping[str, Any], peak: float) -> Dict[str, float]:
    """Replace the counted operations of an update by its speed [GFLOP/s] and its share of the peak."""
    figures = {name: value for name, value in run.items() if name != "update_flops"}
    if run["update_flops"] is not None:
        figures["update_gflops"] = run["update_flops"] / run["update"] / 1e9
        figures["update_share"] = figures["update_gflops"] / peak
    return figures


_ROWS = {
    "collect": ("collect [ms]", 1e3),
    "products": ("its products alone [ms]", 1e3),
    "gae": ("gae [ms]", 1e3),
    "update": ("update [ms]", 1e3),
    "update_gflops": ("update [GFLOP/s]", 1.0),
    "update_share": ("share of peak [%]", 100.0),
    "peak_mb": ("peak memory [MB]", 1.0),
}
"""Figures of a table: label and scale."""


def _table(
    title: str, caption: str, figures: Mapping[str, Mapping[str, Spread]], compared: Mapping[str, Mapping[str, Spread]]
) -> Table:
    table = Table(title=title, caption=caption)
    for column in ("", *figures, *(f"{other} / ours" for other in compared)):
        table.add_column(column, justify="right" if column else "left")
    for name, (label, scale) in _ROWS.items():
        cells = [own[name].times(scale).text() if name in own else "-" for own in figures.values()]
        cells += [ratio[name].text() if name in ratio else "-" for ratio in compared.values()]
        table.add_row(label, *cells)
    return table
