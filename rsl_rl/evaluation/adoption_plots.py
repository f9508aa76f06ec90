"""Plots of an adopted robot."""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
from __future__ import annotations

from pathlib import Path
from typing import Sequence

import numpy as np
from matplotlib.figure import Figure

from rsl_rl.adoption.standing import Settled


def plot_ranges(
    names: Sequence[str], ranges: np.ndarray, angles: np.ndarray, torques: np.ndarray, efforts: np.ndarray, path: Path
) -> None:
    """Draw the range [J, 2] of each joint with its standing angle [J], and its torque [J] against its limit [J]."""
    figure = Figure(figsize=(11, 1.2 + 0.28 * len(names)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    rows = np.arange(len(names))[::-1]
    left.barh(rows, ranges[:, 1] - ranges[:, 0], left=ranges[:, 0], color="#c9d8ea", height=0.6)
    left.plot(angles, rows, "o", color="#1f77b4")
    left.set_yticks(rows, list(names))
    left.set_xlabel("range and standing angle [rad]")
    right.barh(rows, efforts, color="#e6e6e6", height=0.6)
    right.barh(rows, np.abs(torques), color="#1f77b4", height=0.3)
    right.set_xlabel("torque limit and torque while standing [N m]")
    figure.savefig(path, dpi=100)


def plot_settling(settled: Settled, feet: Sequence[str], weight: float, height: float, path: Path) -> None:
    """Draw height and tilt of the trunk over time, and the forces on the feet at the end."""
    figure = Figure(figsize=(11, 3.2), layout="constrained")
    first, second, third = figure.subplots(1, 3)
    seconds = settled.history[:, 0]
    first.plot(seconds, settled.history[:, 1], color="#1f77b4")
    first.axhline(height, color="#d62728", linestyle="--", linewidth=1)
    first.set_ylabel("height of the trunk [m]")
    first.set_ylim(0, 1.2 * height)
    second.plot(seconds, np.degrees(settled.history[:, 2]), color="#1f77b4")
    second.set_ylabel("tilt of the trunk [deg]")
    second.set_ylim(bottom=0, top=max(5.0, 1.1 * float(np.degrees(settled.history[:, 2].max()))))
    for axis in (first, second):
        axis.set_xlabel("time [s]")
    third.bar(list(feet), settled.forces, color="#1f77b4")
    third.axhline(weight / len(feet), color="#d62728", linestyle="--", linewidth=1)
    third.set_ylabel("vertical force after 5 s [N]")
    figure.savefig(path, dpi=100)
