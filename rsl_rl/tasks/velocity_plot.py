"""A picture of how well robots follow their commands."""

from __future__ import annotations

from pathlib import Path
from typing import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from torch import Tensor


def plot_velocities(recording: Mapping[str, Tensor], control_dt: float, foot_names: Sequence[str], path: Path) -> None:
    """Draw commanded and measured velocity of the first robot of a recording, and which of its feet touch the floor, as
    PNG."""
    seconds = np.arange(len(recording["command"])) * control_dt
    labels = ("forward $v_x$ [m/s]", "left $v_y$ [m/s]", "yaw rate [rad/s]")
    figure = Figure(figsize=(10, 9))  # by itself, without pyplot: no display is asked for
    axes = figure.subplots(4, 1, sharex=True, height_ratios=(2, 2, 2, 1.2))
    for i, label in enumerate(labels):
        axes[i].plot(seconds, recording["velocity"][:, 0, i], color="#1f77b4", linewidth=1.2, label="measured")
        axes[i].step(
            seconds, recording["command"][:, 0, i], color="#d62728", linewidth=1.8, where="post", label="commanded"
        )
        axes[i].set_ylabel(label)
        axes[i].grid(alpha=0.3)
    axes[0].legend(loc="lower right", ncols=2)
    contact = recording["foot_contact"][:, 0].numpy()
    for foot in range(len(foot_names)):
        axes[3].fill_between(seconds, foot, foot + 0.8, where=contact[:, foot], step="post", color="#444444")
    axes[3].set_yticks(
        [foot + 0.4 for foot in range(len(foot_names))], [name.replace("_foot", "") for name in foot_names]
    )
    axes[3].invert_yaxis()
    axes[3].set_ylabel("feet on the floor")
    axes[3].set_xlabel("time [s]")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
