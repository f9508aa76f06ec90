"""Train in an environment that breaks, and measure the cost of the protection while nothing breaks."""

from __future__ import annotations

import dataclasses
import math
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from typing_extensions import Literal

from benchmarks.flags import require_counts
from benchmarks.pairing import PEER_PACKAGES, Spread, Worker

Kind = Literal["obs nan", "obs inf", "reward nan", "reward inf", "reward 1e30", "physics nan", "broken for good"]
FOR_GOOD = "broken for good"
KINDS: Tuple[Kind, ...] = (
    "obs nan", "obs inf", "reward nan", "reward inf", "reward 1e30", "physics nan", FOR_GOOD,
)  # fmt: skip
TOLERANCE = 0.05
"""Largest relative difference between the returns with and without faults."""

Run = Dict[str, Any]


@dataclass(frozen=True)
class Faults:
    """Trainings in an environment that breaks, and the cost of protection while nothing breaks.

    Points learn to move to the origin, while observations, rewards or states become NaN, infinite or very large. The
    policy at the end is evaluated in an environment without faults. Ours must reach the return without faults within
    5 %, have finite weights after every iteration and count all faults; otherwise the exit code is 1. The cost is that
    of whole iterations of a legged robot's training, with and without protection in turns.
    """

    kinds: Tuple[Kind, ...] = KINDS
    """Kinds of faults; none: no trainings."""
    rates: Tuple[float, ...] = (1e-5, 1e-3, 1e-2)
    """Faults per environment and step; not used for an environment that is broken permanently."""
    seeds: Tuple[int, ...] = (1, 2, 3)
    """Seeds of points, faults and weights; counts are summed, and returns averaged, over them."""
    num_envs: int = 256
    """Number of points."""
    num_steps: int = 24
    """Steps of a rollout."""
    iterations: int = 60
    """Updates of a training."""
    hidden_dims: Tuple[int, ...] = (32, 32)
    """Units of each hidden layer, of actor and critic."""
    peer: Optional[Path] = None
    """Folder with another rsl_rl, made by pip install --target; it gets the same faults."""
    task: str = "go2_flat"
    """Task for the measurement of the cost."""
    num_robots: int = 512
    """Number of robots of this task."""
    pairs: int = 24
    """Number of measured pairs of iterations, with and without protection; 0: no measurement."""
    warm_up: int = 2
    """Pairs before the measured ones."""

    def __post_init__(self):
        require_counts(self, "num_envs", "num_steps", "iterations", "hidden_dims", "num_robots", "warm_up")
        if self.pairs < 0:
            raise ValueError(f"--pairs {self.pairs}: give a whole number of at least 0")
        for rate in self.rates:
            if not 0.0 < rate <= 1.0:
                raise ValueError(f"--rates {rate}: give a probability, above 0")
        if not self.rates or not self.seeds:
            raise ValueError(f"--{'seeds' if self.rates else 'rates'} is empty; give at least one number")
        if self.peer is not None and not (self.peer / "rsl_rl").is_dir():
            raise ValueError(
                f"--peer {self.peer} holds no rsl_rl; fill it with: pip install --no-deps --target {self.peer} "
                f"{PEER_PACKAGES}"
            )


def measure(cfg: Faults) -> Dict[str, Any]:
    """Train and time; print tables and return their content. A wrong result of our trainings is a RuntimeError."""
    cases = _train_all(cfg) if cfg.kinds else []
    cost = _measure_cost(cfg) if cfg.pairs else None
    settings = {**dataclasses.asdict(cfg), "peer": cfg.peer and str(cfg.peer)}
    wrong = [complaint for case in cases for complaint in complaints(case)]
    if wrong:
        raise RuntimeError("; ".join(wrong))
    return {"benchmark": "faults", "settings": settings, "cases": cases, "cost": cost}


def _train_all(cfg: Faults) -> List[Dict[str, Any]]:
    """Train with every kind of fault, first ours and then the peer's, and print the results."""
    faults = [("none", 0.0)]
    for kind in cfg.kinds:
        faults += [(kind, rate) for rate in (cfg.rates if kind != FOR_GOOD else (0.0,))]
    ours = _train(cfg, "our_faults.py", faults, None)
    peer = _train(cfg, "peer_faults.py", faults, cfg.peer.resolve()) if cfg.peer is not None else {}
    samples = cfg.num_envs * cfg.num_steps * cfg.iterations * len(cfg.seeds)
    cases = []
    for fault in faults:
        case = {"kind": fault[0], "rate": fault[1], "ours": summary(ours[fault], ours[faults[0]])}
        case["expected_events"] = fault[1] * samples if fault[1] else None
        if peer:
            case["peer"] = endings(peer[fault], peer[faults[0]])
        cases.append(case)
    title = f"{cfg.num_envs} environments x {cfg.num_steps} steps x {cfg.iterations} iterations, {len(cfg.seeds)} seeds"
    Console().print(_table(title, cases))
    if peer:
        Console().print(_peer_table(cases))
    return cases


def _train(
    cfg: Faults, script: str, faults: Sequence[Tuple[str, float]], packages: Optional[Path]
) -> Dict[Tuple[str, float], List[Run]]:
    """Return the results of the trainings for each kind of fault, by seed."""
    cases = [{"kind": kind, "rate": rate, "seed": seed} for kind, rate in faults for seed in cfg.seeds]
    names = ("num_envs", "num_steps", "iterations", "hidden_dims")
    settings = {"seed": 0, "device": "cpu", "cases": cases, **{name: getattr(cfg, name) for name in names}}
    runs: Dict[Tuple[str, float], List[Run]] = {fault: [] for fault in faults}
    worker = Worker(script, settings, packages)
    try:
        for case in cases:
            run = worker.run()
            runs[case["kind"], case["rate"]].append(run)
            print(f"{script}: {case['kind']}, rate {case['rate']:g}, seed {case['seed']}: {_end(run)}", flush=True)
    finally:
        worker.stop()
    return runs


def _end(run: Run) -> str:
    """Return one line on the end of a training, with the iteration of a failure after the last comma."""
    if run["error"] is not None:
        lost = "" if run["not_finite"] is None else " (weights not finite)"
        return f"{run['error'].split('. ')[0][:100]}{lost}, iteration {run['iterations'] + 1}"
    if run["not_finite"] is not None:
        return f"weights not finite, iteration {run['not_finite']}"
    return f"return {run['return']:.3f}"


def summary(runs: Sequence[Run], clean: Sequence[Run]) -> Dict[str, Any]:
    """Summarise our trainings for one kind of fault; ``clean`` are those without faults, of the same seeds."""
    ratios = [run["return"] / other["return"] for run, other in zip(runs, clean)]
    finite = all(map(math.isfinite, ratios))
    return {
        "return": statistics.mean(run["return"] for run in runs) if finite else None,
        "ratio": statistics.mean(ratios) if finite else None,
        "furthest_ratio": max(ratios, key=lambda ratio: abs(ratio - 1.0)) if finite else None,
        **{name: sum(run[name] for run in runs) for name in ("events", "unusable", "left_out", "skipped")},
        **{name: sum(sum(run[name].values()) for run in runs) for name in ("broken", "counted")},
        "counted_exactly": all(run["counted"] == run["broken"] and run["left_out"] == run["unusable"] for run in runs),
        "weights_finite": all(run["not_finite"] is None for run in runs),
        "errors": [run["error"] for run in runs if run["error"] is not None],
    }


def endings(runs: Sequence[Run], clean: Sequence[Run]) -> List[str]:
    """Return lines on the ends of the peer's trainings for one kind of fault, without repetitions."""
    iterations: Dict[str, List[int]] = {}
    for run, other in zip(runs, clean):
        end, _, iteration = _end(run).rpartition(", iteration ")
        if end:
            iterations.setdefault(end, []).append(int(iteration))
        else:
            iterations.setdefault(f"{run['return'] / other['return']:.2f} of its return without faults", []).append(0)
    return [
        f"{len(found)} of {len(runs)}: {end}" + (f", iteration {_range(found)}" if any(found) else "")
        for end, found in iterations.items()
    ]


def _range(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low}-{high}"


def complaints(case: Mapping[str, Any]) -> List[str]:
    """Return the failures of our trainings for one kind of fault."""
    ours, name = case["ours"], _name(case)
    wrong = [f"{name} ended the training with {error}" for error in ours["errors"]]
    if not ours["weights_finite"]:
        wrong.append(f"{name} left weights that are not finite")
    if not ours["counted_exactly"]:
        wrong.append(
            f"{name} broke {ours['broken']} things in {ours['unusable']} steps and {ours['counted']:.0f} in "
            f"{ours['left_out']:.0f} were counted"
        )
    if ours["ratio"] is None or abs(ours["ratio"] - 1.0) > TOLERANCE:
        wrong.append(f"{name} led to {_three(ours['ratio'])} of the return without")
    return wrong


def _three(value: Optional[float]) -> str:
    return "no number" if value is None else f"{value:.3f}"


def _table(title: str, cases: Sequence[Mapping[str, Any]]) -> Table:
    caption = "share: of the return without faults, mean over the seeds; finite: all weights after every iteration"
    table = Table(title=title, caption=caption, box=SIMPLE, collapse_padding=True)
    counts = {"events": "events", "broken": "broken", "counted": "counted", "left_out": "left out", "skipped": "skips"}
    for column in ("faults", "share", *counts.values(), "finite"):
        table.add_column(column, justify="left" if column == "faults" else "right", no_wrap=True)
    for case in cases:
        ours = case["ours"]
        numbers = (f"{ours[name]:.0f}" for name in counts)
        finite = "yes" if ours["weights_finite"] else "NO"
        table.add_row(_name(case), _three(ours["ratio"]), *numbers, finite)
    return table


def _peer_table(cases: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(title="the peer", box=SIMPLE, pad_edge=False)
    table.add_column("faults", no_wrap=True)
    table.add_column("trainings that ended so")
    for case in cases:
        table.add_row(_name(case), "\n".join(case["peer"]))
    return table


def _name(case: Mapping[str, Any]) -> str:
    return f"{case['kind']} {case['rate']:g}" if case["rate"] else case["kind"]


def _measure_cost(cfg: Faults) -> Dict[str, Any]:
    """Time iterations with and without protection, and print what it costs."""
    settings = {"seed": 1, "device": "cpu", "task": cfg.task, "num_robots": cfg.num_robots}
    worker = Worker("unprotected.py", settings)
    try:
        pairs = [worker.run() for _ in range(cfg.warm_up + cfg.pairs)][cfg.warm_up :]
    finally:
        worker.stop()
    ways = {way: Spread.of([pair[way] for pair in pairs]) for way in ("with", "without")}
    ratio = Spread.of([pair["with"] / pair["without"] for pair in pairs])
    loss = 1.0 - 1.0 / ratio.median
    table = Table(title=f"{cfg.task}, {cfg.num_robots} robots, median (least-most) of {cfg.pairs} pairs")
    for column in ("protection", "iteration [s]"):
        table.add_column(column)
    for way, spread in ways.items():
        table.add_row(way, spread.text())
    median, low, high = (f"{value:.3f}" for value in ratio)
    table.add_row("with / without", f"{median} ({low}-{high})")
    table.add_row("loss of throughput", f"{100 * loss:.1f} %")
    Console().print(table)
    times = {way: spread._asdict() for way, spread in ways.items()}
    return {"seconds": times, "ratio": ratio._asdict(), "throughput_loss": loss}
