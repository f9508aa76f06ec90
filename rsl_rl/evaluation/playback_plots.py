"""Plots of a recorded robot."""

from __future__ import annotations

from pathlib import Path
from typing import Mapping, Sequence, Tuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

_MEASURED, _COMMANDED, _LIMIT = "#1f77b4", "#d62728", "#444444"
_JOINT_WINDOW = 3.0  # length of the joint plots, short enough to see single steps [s]


def plot_motion(recording: Mapping[str, Tensor], control_dt: float, foot_names: Sequence[str], path: Path) -> None:
    """Draw commanded and measured velocity, base height, action rate and foot contacts of the first robot as PNG."""
    robot = {name: value[:, 0].numpy() for name, value in recording.items()}
    seconds = (1 + np.arange(len(robot["command"]))) * control_dt
    figure = Figure(figsize=(12, 12), layout="constrained")  # without pyplot, which needs a display
    axes = figure.subplots(6, 1, sharex=True, height_ratios=(2, 2, 2, 1.2, 1.2, 1.6))
    figure.suptitle("Robot 1: commands and motion")
    for i, label in enumerate(("forward $v_x$ [m/s]", "left $v_y$ [m/s]", "yaw rate [rad/s]")):
        axes[i].plot(seconds, robot["velocity"][:, i], color=_MEASURED, linewidth=1.2, label="measured")
        axes[i].plot(seconds, robot["command"][:, i], "--", color=_COMMANDED, linewidth=2, label="commanded")
        axes[i].set_ylabel(label)
    axes[3].plot(seconds, robot["base_height"], color=_MEASURED, linewidth=1.2)
    axes[3].set_ylabel("base height [m]")
    axes[4].plot(seconds, np.sqrt((robot["target_change"] ** 2).mean(axis=1)), color=_MEASURED, linewidth=1.0)
    axes[4].set_ylabel("action rate\n[rad/step]")
    axes[4].set_ylim(bottom=0.0)
    _draw_gait(axes[5], seconds, robot["foot_contact"], foot_names)
    for axis in axes:
        _mark_ends(axis, seconds, robot["done"])
    axes[5].set_xlabel("time [s]")
    axes[5].set_xlim(0.0, seconds[-1])
    figure.align_ylabels(axes)
    _legend(figure, axes[0])
    figure.savefig(path, dpi=110)


def _draw_gait(axis: Axes, seconds: np.ndarray, contact: np.ndarray, foot_names: Sequence[str]) -> None:
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
    shown = slice(-max(2, round(_JOINT_WINDOW / control_dt)), None)
    limits = torque_limits.numpy()
    rows, columns = _grid(len(joint_names), num_legs)
    figure = Figure(figsize=(4.5 * columns, 4.4 * rows), layout="constrained")
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
    figure.savefig(path, dpi=80)


def _grid(num_joints: int, num_legs: int) -> Tuple[int, int]:
    """Return rows and columns: one column for each leg, or four if legs differ in their number of joints."""
    columns = num_legs if num_legs and num_joints % num_legs == 0 else min(4, num_joints)
    return -(-num_joints // columns), columns


def _mark_ends(axis: Axes, seconds: np.ndarray, done: np.ndarray) -> None:
    """Mark the ends of episodes, and draw a grid."""
    for end in seconds[done]:
        axis.axvline(end, color="black", linewidth=1.0, label="episode ended")
    axis.grid(alpha=0.3)


def _legend(figure: Figure, *axes: Axes) -> None:
    """Add one legend for the lines of several axes below a figure."""
    lines = {label: line for axis in axes for line, label in zip(*axis.get_legend_handles_labels())}
    figure.legend(list(lines.values()), list(lines), loc="outside lower center", ncols=len(lines))
