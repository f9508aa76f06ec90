"""Plots of an evaluation, each as the bytes of a PNG file."""

from __future__ import annotations

import io
from typing import Dict, List, Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from rsl_rl.evaluation.evaluate import EvalResult
from rsl_rl.evaluation.gait_metrics import AXES, CommandBin

_LABELS = {"lin_vel_x": "forward $v_x$ [m/s]", "lin_vel_y": "left $v_y$ [m/s]", "yaw_rate": "yaw rate [rad/s]"}

_GAIT_SECONDS = 3.0
"""Length of the recording that a gait diagram shows [s]."""


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()


def _figure(width: float, height: float) -> Figure:
    return Figure(figsize=(width, height), layout="constrained")  # without pyplot, which needs a display


def _colors(count: int) -> List:
    return [matplotlib.colormaps["tab10"](i % 10) for i in range(count)]


def _legend(figure: Figure, axis: Axes) -> None:
    handles, labels = axis.get_legend_handles_labels()
    columns = max(1, min(len(labels), 120 // (max(map(len, labels)) + 6)))  # as many as fit in one line
    figure.legend(handles, labels, loc="outside lower center", ncols=columns)


def plot_comparison(eval_results: Sequence[EvalResult]) -> bytes:
    """Draw every metric of every checkpoint: the mean, its interval, the seeds as dots, the limit as a line."""
    names, colors = list(eval_results[0].metrics), _colors(len(eval_results))
    rows = -(-len(names) // 4)
    figure = _figure(11, 2.3 * rows)
    for axis, name in zip(figure.subplots(rows, 4, squeeze=False).flat, names):
        for i, one in enumerate(eval_results):
            values = [seed_result.metrics[name] for seed_result in one.seed_results]
            axis.plot([i] * len(values), values, ".", color=colors[i], alpha=0.4)
            low, high = one.intervals.get(name, (one.metrics[name], one.metrics[name]))
            axis.plot([i, i], [low, high], color=colors[i], linewidth=3)
            axis.plot(i, one.metrics[name], "o", color=colors[i], label=_label(one.name), clip_on=False)
        limit = eval_results[0].env_cfg.gate.get(name)
        if limit is not None:
            axis.axhline(limit, color="#d62728", linestyle="--", linewidth=1)
        axis.set_title(name, fontsize=10)
        axis.set_xticks([])
        axis.set_xlim(-0.5, len(eval_results) - 0.5)
        axis.set_ylim(0, 1.08 * axis.get_ylim()[1])
        axis.grid(axis="y", alpha=0.3)
    _legend(figure, figure.axes[0])
    return _png(figure)


def _bins_of(eval_result: EvalResult) -> Dict[str, List[CommandBin]]:
    bins = eval_result.tracking
    return {axis: [one for one in bins if one.axis == axis] for axis in AXES}


def plot_tracking_errors(eval_results: Sequence[EvalResult]) -> bytes:
    """Draw both errors of every checkpoint as bars over the bins of each component of the command."""
    figure, colors = _figure(11, 5.5), _colors(len(eval_results))
    axes = figure.subplots(2, 3, sharey="row")
    for column, component in enumerate(AXES):
        for i, one in enumerate(eval_results):
            bins = _bins_of(one)[component]
            width = 0.8 / len(eval_results)
            x = np.arange(len(bins)) + (i - (len(eval_results) - 1) / 2) * width
            for row, errors in enumerate(([b.lin_vel_error for b in bins], [b.yaw_rate_error for b in bins])):
                axes[row, column].bar(x, errors, width, color=colors[i], label=_label(one.name))
        bins = _bins_of(eval_results[0])[component]
        for row in range(2):
            axes[row, column].set_xticks(range(len(bins)), [f"{b.low:+.1f}\nto {b.high:+.1f}" for b in bins])
            axes[row, column].grid(axis="y", alpha=0.3)
        axes[1, column].set_xlabel(f"commanded {_LABELS[component]}")
    axes[0, 0].set_ylabel("velocity error [m/s]")
    axes[1, 0].set_ylabel("yaw rate error [rad/s]")
    _legend(figure, axes[0, 0])
    return _png(figure)


def plot_velocities(eval_results: Sequence[EvalResult]) -> bytes:
    """Draw the mean measured velocity against the mean commanded velocity of each bin; the diagonal is no error."""
    figure, colors = _figure(11, 4.2), _colors(len(eval_results))
    for axis, component in zip(figure.subplots(1, 3), AXES):
        ranges = []
        for i, one in enumerate(eval_results):
            bins = _bins_of(one)[component]
            axis.plot(
                [b.command for b in bins], [b.measured for b in bins], "o-", color=colors[i], label=_label(one.name)
            )
            ranges += [bins[0].low, bins[-1].high]
        axis.plot([min(ranges), max(ranges)], [min(ranges), max(ranges)], color="#999999", zorder=0, label="perfect")
        axis.set_xlabel(f"commanded {_LABELS[component]}")
        axis.set_ylabel("measured")
        axis.grid(alpha=0.3)
    _legend(figure, figure.axes[0])
    return _png(figure)


def plot_falls(eval_results: Sequence[EvalResult]) -> bytes:
    """Draw falls per robot by cause."""
    causes = list(dict.fromkeys(cause for one in eval_results for cause in one.falls))
    figure, colors = _figure(11, 3.2), _colors(len(eval_results))
    axis = figure.subplots()
    for i, one in enumerate(eval_results):
        width = 0.8 / len(eval_results)
        x = np.arange(len(causes)) + (i - (len(eval_results) - 1) / 2) * width
        axis.bar(x, [one.falls.get(cause, 0.0) for cause in causes], width, color=colors[i], label=_label(one.name))
    axis.set_xticks(range(len(causes)), [cause.replace("_", " ") for cause in causes])
    axis.set_ylabel("falls per robot")
    axis.grid(axis="y", alpha=0.3)
    _legend(figure, axis)
    return _png(figure)


def plot_walk(eval_result: EvalResult) -> bytes:
    """Draw commanded and measured velocity and foot contacts of the first robot of the first seed."""
    recording, dt = eval_result.seed_results[0].recording, eval_result.env_cfg.sim.control_dt
    figure = _figure(11, 8.5)
    axes = figure.subplots(4, 1, height_ratios=(1, 1, 1, 0.9))
    seconds = np.arange(len(recording["command"])) * dt
    for i, component in enumerate(AXES):
        axes[i].plot(seconds, recording["velocity"][:, 0, i], color="#1f77b4", linewidth=1, label="measured")
        axes[i].step(seconds, recording["command"][:, 0, i], color="#d62728", where="post", label="commanded")
        for step in recording["done"][:, 0].nonzero().flatten().tolist():
            axes[i].axvline(step * dt, color="#000000", linestyle=":", label="fall")
        axes[i].set_ylabel(_LABELS[component])
        axes[i].grid(alpha=0.3)
    axes[2].set_xlabel("time [s]")
    by_label = dict(zip(*axes[0].get_legend_handles_labels()[::-1]))  # each once
    figure.legend(by_label.values(), by_label.keys(), loc="outside upper right", ncols=3)
    _draw_gait(axes[3], recording["foot_contact"][:, 0], dt, eval_result.foot_names)
    return _png(figure)


def _draw_gait(axis: Axes, contact: Tensor, dt: float, foot_names: Sequence[str]) -> None:
    """Draw contact [steps, F] as one row of bars for each foot, over the last seconds."""
    first = max(0, len(contact) - round(_GAIT_SECONDS / dt))
    for foot in range(contact.shape[1]):
        down = (first + contact[first:, foot].nonzero().flatten().numpy()) * dt
        axis.broken_barh([(start, dt) for start in down], (foot, 0.8), color="#444444", linewidth=0)
    axis.set_yticks([foot + 0.4 for foot in range(len(foot_names))], [n.replace("_foot", "") for n in foot_names])
    axis.set_xlim(first * dt, len(contact) * dt)
    axis.set_ylim(len(foot_names), -0.2)
    axis.set_ylabel("feet on the floor")
    axis.set_xlabel("time [s], end of the recording")


def _label(name: str) -> str:
    """Return a name that Matplotlib does not read as a formula."""
    return name.replace("$", r"\$")
