"""Plots of the benchmarks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

_COLOURS = {
    "collect": {"ours": "#1f77b4", "peer": "#9ecae1"},
    "update": {"ours": "#d62728", "peer": "#f4a582"},
}


def plot_phases(results: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw the seconds of collect and update against N as PNG, for each worker in the results of learner.py.

    Dashed lines grow linearly from our smallest N on.
    """
    results = sorted(results, key=lambda result: result["num_envs"])
    sizes = [result["num_envs"] for result in results]
    figure = Figure(figsize=(8, 6))  # without pyplot, which needs a display
    axes = figure.subplots()
    for phase, colours in _COLOURS.items():
        for worker in results[0]["figures"]:
            spreads = [result["figures"][worker][phase] for result in results]
            medians, low, high = ([spread[name] for spread in spreads] for name in ("median", "low", "high"))
            axes.plot(sizes, medians, color=colours[worker], marker="o", label=f"{phase}, {worker}")
            axes.fill_between(sizes, low, high, color=colours[worker], alpha=0.25, linewidth=0)
        first = results[0]["figures"]["ours"][phase]["median"]
        linear = [first * size / sizes[0] for size in sizes]
        axes.plot(sizes, linear, color=colours["ours"], linestyle="--", linewidth=1.0, label=f"{phase}, linear growth")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("environments N")
    axes.set_ylabel("time per iteration [s]")
    axes.grid(alpha=0.3, which="both")
    axes.legend()
    figure.tight_layout()
    _save(figure, path)


def plot_shares(results: Mapping[str, Sequence[Any]], path: Path) -> None:
    """Draw the share of communication against the number of GPUs as PNG, for each cluster in the results of
    scaling.py."""
    figure = Figure(figsize=(8, 5))
    axes = figure.subplots()
    for (name, points), colour in zip(results.items(), ("#1f77b4", "#d62728")):
        several = [one for one in points if one.gpus > 1]
        for what, style in (("iteration", "-"), ("update", "--")):
            shares = [100 * getattr(one, f"share_of_{what}") for one in several]
            label = f"{name}: of the {what}"
            axes.plot([one.gpus for one in several], shares, style, color=colour, marker="o", markersize=4, label=label)
    axes.axhline(5.0, color="black", linewidth=0.8)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("GPUs")
    axes.set_ylabel("share of communication [%]")
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize="small")
    figure.tight_layout()
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        figure.savefig(temporary, format="png", dpi=110)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
