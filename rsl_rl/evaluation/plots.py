"""Plots of evaluations, of recorded robots and of terrains; they need Matplotlib, which is in an extra."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, List, Mapping, Sequence, Tuple

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import LightSource
from matplotlib.figure import Figure
from torch import Tensor

from rsl_rl.evaluation.evaluate import EvalResult, metric_names
from rsl_rl.evaluation.gait_metrics import AXES, CommandBin
from rsl_rl.utils.files import atomic_write
from rsl_rl.utils.height_field import HeightField

_LABELS = {"lin_vel_x": "forward $v_x$ [m/s]", "lin_vel_y": "left $v_y$ [m/s]", "yaw_rate": "yaw rate [rad/s]"}

_MEASURED, _COMMANDED, _LIMIT = "#1f77b4", "#d62728", "#444444"

_SHOWN_SECONDS = 3.0
"""Length of the recording that gait diagrams and plots of joints show, short enough to see single steps [s]."""


def _png(figure: Figure, dpi: int = 110) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    return buffer.getvalue()


def _figure(width: float, height: float) -> Figure:
    return Figure(figsize=(width, height), layout="constrained")  # without pyplot, which needs a display


def _color(i: int) -> Tuple[float, float, float, float]:
    return colormaps["tab10"](i % 10)


def _legend(figure: Figure, *axes: Axes, on_top: bool = False) -> None:
    """Add one legend for the lines of several axes, each label once, below the figure or on top of it."""
    lines = {label: line for axis in axes for line, label in zip(*axis.get_legend_handles_labels())}
    columns = max(1, min(len(lines), 120 // (max(map(len, lines)) + 6)))  # as many as fit in one line
    where = "outside upper right" if on_top else "outside lower center"
    figure.legend(list(lines.values()), list(lines), loc=where, ncols=columns)


def _draw_bars(axis: Axes, heights: Sequence[float], i: int, eval_results: Sequence[EvalResult]) -> None:
    """Draw the bars of the result number ``i`` beside those of the others."""
    width = 0.8 / len(eval_results)
    x = np.arange(len(heights)) + (i - (len(eval_results) - 1) / 2) * width
    axis.bar(x, heights, width, color=_color(i), label=_label(eval_results[i].name))


def _label(name: str) -> str:
    """Return a name that Matplotlib does not read as a formula."""
    return name.replace("$", r"\$")


def plot_comparison(eval_results: Sequence[EvalResult]) -> bytes:
    """Draw every metric of every checkpoint: the mean, its interval, the seeds as dots, the limit as a line."""
    names = metric_names(eval_results)
    rows = -(-len(names) // 4)
    figure = _figure(11, 2.3 * rows)
    for axis, name in zip(figure.subplots(rows, 4, squeeze=False).flat, names):
        for i, one in ((i, one) for i, one in enumerate(eval_results) if name in one.metrics):
            values = [seed_result.metrics[name] for seed_result in one.seed_results]
            axis.plot([i] * len(values), values, ".", color=_color(i), alpha=0.4)
            low, high = one.intervals.get(name, (one.metrics[name], one.metrics[name]))
            axis.plot([i, i], [low, high], color=_color(i), linewidth=3)
            axis.plot(i, one.metrics[name], "o", color=_color(i), label=_label(one.name), clip_on=False)
        limit = eval_results[0].env_cfg.gate.get(name)
        if limit is not None:
            axis.axhline(limit, color=_COMMANDED, linestyle="--", linewidth=1)
        axis.set_title(name, fontsize=10)
        axis.set_xticks([])
        axis.set_xlim(-0.5, len(eval_results) - 0.5)
        axis.set_ylim(0, 1.08 * axis.get_ylim()[1])
        axis.grid(axis="y", alpha=0.3)
    _legend(figure, figure.axes[0])
    return _png(figure)


def _bins_of(eval_result: EvalResult, component: str) -> List[CommandBin]:
    return [one for one in eval_result.tracking if one.axis == component]


def plot_tracking_errors(eval_results: Sequence[EvalResult]) -> bytes:
    """Draw both errors of every checkpoint as bars over the bins of each component of the command."""
    figure = _figure(11, 5.5)
    axes = figure.subplots(2, 3, sharey="row")
    for column, component in enumerate(AXES):
        for i, one in enumerate(eval_results):
            bins = _bins_of(one, component)
            _draw_bars(axes[0, column], [b.lin_vel_error for b in bins], i, eval_results)
            _draw_bars(axes[1, column], [b.yaw_rate_error for b in bins], i, eval_results)
        bins = _bins_of(eval_results[0], component)
        for row in range(2):
            axes[row, column].set_xticks(range(len(bins)), [f"{b.low:+.1f}\nto {b.high:+.1f}" for b in bins])
            axes[row, column].grid(axis="y", alpha=0.3)
        axes[1, column].set_xlabel(f"commanded {_LABELS[component]}")
    axes[0, 0].set_ylabel("velocity error [m/s]")
    axes[1, 0].set_ylabel("yaw rate error [rad/s]")
    _legend(figure, axes[0, 0])
    return _png(figure)


def plot_velocities(eval_results: Sequence[EvalResult]) -> bytes:
    """Draw the mean measured velocity against the mean commanded velocity of each bin; the diagonal has no error."""
    figure = _figure(11, 4.2)
    for axis, component in zip(figure.subplots(1, 3), AXES):
        ranges = []
        for i, one in enumerate(eval_results):
            bins = _bins_of(one, component)
            commanded, measured = [b.command for b in bins], [b.measured for b in bins]
            axis.plot(commanded, measured, "o-", color=_color(i), label=_label(one.name))
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
    figure = _figure(11, 3.2)
    axis = figure.subplots()
    for i, one in enumerate(eval_results):
        _draw_bars(axis, [one.falls.get(cause, 0.0) for cause in causes], i, eval_results)
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
        axes[i].plot(seconds, recording["velocity"][:, 0, i], color=_MEASURED, linewidth=1, label="measured")
        axes[i].step(seconds, recording["command"][:, 0, i], color=_COMMANDED, where="post", label="commanded")
        for step in recording["done"][:, 0].nonzero().flatten().tolist():
            axes[i].axvline(step * dt, color="#000000", linestyle=":", label="fall")
        axes[i].set_ylabel(_LABELS[component])
        axes[i].grid(alpha=0.3)
    axes[2].set_xlabel("time [s]")
    _legend(figure, axes[0], on_top=True)
    _draw_last_steps(axes[3], recording["foot_contact"][:, 0], dt, eval_result.foot_names)
    return _png(figure)


def _draw_last_steps(axis: Axes, contact: Tensor, dt: float, foot_names: Sequence[str]) -> None:
    """Draw contact [steps, F] as one row of bars for each foot, over the last seconds."""
    first = max(0, len(contact) - round(_SHOWN_SECONDS / dt))
    for foot in range(contact.shape[1]):
        down = (first + contact[first:, foot].nonzero().flatten().numpy()) * dt
        axis.broken_barh([(start, dt) for start in down], (foot, 0.8), color="#444444", linewidth=0)
    axis.set_yticks([foot + 0.4 for foot in range(len(foot_names))], [n.replace("_foot", "") for n in foot_names])
    axis.set_xlim(first * dt, len(contact) * dt)
    axis.set_ylim(len(foot_names), -0.2)
    axis.set_ylabel("feet on the floor")
    axis.set_xlabel("time [s], end of the recording")


def plot_motion(recording: Mapping[str, Tensor], control_dt: float, foot_names: Sequence[str], path: Path) -> None:
    """Draw commanded and measured velocity, base height, action rate and foot contacts of the first robot as PNG."""
    robot = {name: value[:, 0].numpy() for name, value in recording.items()}
    seconds = (1 + np.arange(len(robot["command"]))) * control_dt
    figure = _figure(12, 12)
    axes = figure.subplots(6, 1, sharex=True, height_ratios=(2, 2, 2, 1.2, 1.2, 1.6))
    figure.suptitle("Robot 1: commands and motion")
    for i, label in enumerate(_LABELS.values()):
        axes[i].plot(seconds, robot["velocity"][:, i], color=_MEASURED, linewidth=1.2, label="measured")
        axes[i].plot(seconds, robot["command"][:, i], "--", color=_COMMANDED, linewidth=2, label="commanded")
        axes[i].set_ylabel(label)
    axes[3].plot(seconds, robot["base_height"], color=_MEASURED, linewidth=1.2)
    axes[3].set_ylabel("base height [m]")
    axes[4].plot(seconds, np.sqrt((robot["target_change"] ** 2).mean(axis=1)), color=_MEASURED, linewidth=1.0)
    axes[4].set_ylabel("action rate\n[rad/step]")
    axes[4].set_ylim(bottom=0.0)
    _draw_stances(axes[5], seconds, robot["foot_contact"], foot_names)
    for axis in axes:
        _mark_ends(axis, seconds, robot["done"])
    axes[5].set_xlabel("time [s]")
    axes[5].set_xlim(0.0, seconds[-1])
    figure.align_ylabels(axes)
    _legend(figure, axes[0])
    atomic_write(path, _png(figure))


def _draw_stances(axis: Axes, seconds: np.ndarray, contact: np.ndarray, foot_names: Sequence[str]) -> None:
    """Draw a bar for every stance, contact [steps, F]."""
    step = seconds[0]
    for foot in range(len(foot_names)):
        edges = np.diff(contact[:, foot].astype(int), prepend=0, append=0)
        begins, ends = np.flatnonzero(edges > 0), np.flatnonzero(edges < 0)
        bars = [(begin * step, (end - begin) * step) for begin, end in zip(begins, ends)]
        axis.broken_barh(bars, (foot + 0.1, 0.8), facecolors=f"C{foot % 10}")
    shares = contact.mean(axis=0)
    labels = [f"{name.replace('_foot', '')} {share:.0%}" for name, share in zip(foot_names, shares)]
    axis.set_yticks([foot + 0.5 for foot in range(len(foot_names))], labels)
    axis.set_ylim(len(foot_names), 0)
    axis.set_ylabel("bar: foot on\nthe floor")


def plot_joints(
    recording: Mapping[str, Tensor],
    control_dt: float,
    joint_names: Sequence[str],
    torque_limits: Tensor,  # [J]
    num_legs: int,
    path: Path,
) -> None:
    """Draw joint positions, targets, torques and torque limits of the first robot over the last seconds as PNG.

    Each title gives the largest torque of the whole recording. There is one column for each leg if all legs have the
    same number of joints.
    """
    robot = {name: value[:, 0].numpy() for name, value in recording.items()}
    seconds = (1 + np.arange(len(robot["target"]))) * control_dt
    shown = slice(-max(2, round(_SHOWN_SECONDS / control_dt)), None)
    limits = torque_limits.numpy()
    rows, columns = _grid(len(joint_names), num_legs)
    figure = _figure(4.5 * columns, 4.4 * rows)
    axes = figure.subplots(2 * rows, columns, sharex=True, squeeze=False)
    for axis in axes.flat[:]:
        axis.set_visible(False)
    for j, name in enumerate(joint_names):
        row, column = j % rows, j // rows
        position, torque = axes[row, column], axes[rows + row, column]
        position.plot(seconds[shown], robot["pose"][shown, 7 + j], color=_MEASURED, linewidth=1.4, label="measured")
        position.plot(seconds[shown], robot["target"][shown, j], "--", color=_COMMANDED, linewidth=1.2, label="target")
        position.set_title(name)
        torque.plot(seconds[shown], robot["torque"][shown, j], color=_MEASURED, linewidth=1.2)
        for limit in (-limits[j], limits[j]):
            torque.axhline(limit, color=_LIMIT, linestyle=":", linewidth=1.6, label="torque limit")
        torque.set_title(f"{name}: at most {np.abs(robot['torque'][:, j]).max():.1f} of {limits[j]:.1f} N m")
        for axis, label in ((position, "position [rad]"), (torque, "torque [N m]")):
            axis.set_visible(True)
            _mark_ends(axis, seconds[shown], robot["done"][shown])
            if column == 0:
                axis.set_ylabel(label)
    for axis in axes[-1]:
        axis.set_xlabel("time [s]")
    figure.suptitle(
        f"Robot 1, last {len(seconds[shown]) * control_dt:g} s: joint positions against targets, torques against limits"
    )
    _legend(figure, axes[0, 0], axes[rows, 0])
    atomic_write(path, _png(figure, dpi=80))


def _grid(num_joints: int, num_legs: int) -> Tuple[int, int]:
    """Return rows and columns: one column for each leg, or four if legs differ in their number of joints."""
    columns = num_legs if num_legs and num_joints % num_legs == 0 else min(4, num_joints)
    return -(-num_joints // columns), columns


def _mark_ends(axis: Axes, seconds: np.ndarray, done: np.ndarray) -> None:
    """Mark the ends of episodes, and draw a grid."""
    for end in seconds[done]:
        axis.axvline(end, color="black", linewidth=1.0, label="episode ended")
    axis.grid(alpha=0.3)


def draw_terrain(ground: HeightField, origins: np.ndarray, names: Sequence[str], levels: bool, path: Path) -> None:
    """Write heights with shadows as PNG.

    ``origins`` [rows, columns, 3] are the middles of the tiles, ``names`` the type of each column. ``levels``: whether
    a row is a level.
    """
    (x, y), (length, width) = ground.origin, ground.size
    scale = 16 / max(length, width)
    figure = _figure(width * scale + 2.5, length * scale + 2.5)
    axis = figure.subplots()
    light = LightSource(azdeg=300, altdeg=40)
    low, high = float(ground.heights.min()), max(float(ground.heights.max()), float(ground.heights.min()) + 0.1)
    shaded = light.shade(
        ground.heights, colormaps["terrain"], blend_mode="soft", vmin=low, vmax=high, dx=ground.cell, dy=ground.cell
    )
    axis.imshow(shaded, origin="lower", extent=(y, y + width, x, x + length), interpolation="bilinear")
    axis.set_yticks(origins[:, 0, 0], [f"level {i}" if levels else f"{i}" for i in range(len(origins))])
    axis.set_xticks(origins[0, :, 1], names, rotation=60, ha="right")
    axis.set_title(f"{length:g} x {width:g} m, heights from {low:.2f} to {high:.2f} m; x points up, y to the right")
    atomic_write(path, _png(figure))


def draw_levels(iterations: Sequence[int], levels: Mapping[str, Sequence[Any]], path: Path) -> None:
    """Draw the mean level over the iterations of a training as PNG, a curve for each name; the first is that of all."""
    figure = _figure(9, 5)
    axis = figure.subplots()
    for i, (name, values) in enumerate(levels.items()):
        style = {"color": "black", "linewidth": 2.5} if i == 0 else {"color": f"C{i % 10}", "linewidth": 1.2}
        axis.plot(iterations, values, label=name, linestyle="--" if i > 10 else "-", **style)
    axis.set_xlabel("iteration")
    axis.set_ylabel("mean level")
    axis.set_ylim(bottom=0.0)
    axis.legend(fontsize="small", loc="upper left")
    atomic_write(path, _png(figure))
