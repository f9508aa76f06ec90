"""Plots of an audit; they need Matplotlib, which is in an extra."""

from __future__ import annotations

import io
from typing import Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

from rsl_rl.evaluation.audit.incomes import CommandRow


def plot_incomes(rows: Sequence[CommandRow], motions: Sequence[str], one: CommandRow) -> bytes:
    """Draw the income of each motion over the size of the command, and its terms under one command."""
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for i, motion in enumerate(motions):
        own = [row for row in rows if motion in row.earned]
        sizes, totals = [row.size for row in own], [row.earned[motion].total for row in own]
        left.plot(sizes, totals, ".-", color=colormaps["tab10"](i % 10), label=motion, linewidth=1 + (i == 0))
    left.set_xlabel("size of the command [m/s, rad/s]")
    left.set_ylabel("income per second")
    left.grid(alpha=0.3)
    left.legend(fontsize=8)
    shown = [motion for motion in motions if motion in one.earned]
    above, below = np.zeros(len(shown)), np.zeros(len(shown))
    for i, term in enumerate(one.earned[shown[0]].terms):
        values = np.array([one.earned[motion].terms[term] for motion in shown])
        right.bar(
            shown, values, bottom=np.where(values > 0, above, below), color=colormaps["tab20"](i % 20), label=term
        )
        above, below = above + values.clip(min=0), below + values.clip(max=0)
    right.set_title(f"by term at {one.size:g}", fontsize=10)
    right.tick_params(axis="x", rotation=40)
    right.legend(fontsize=7, ncols=2)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()
