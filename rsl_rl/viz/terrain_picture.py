"""Pictures of a terrain from above and of the levels that robots reached."""

from __future__ import annotations

from pathlib import Path
from typing import Mapping, Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import LightSource
from matplotlib.figure import Figure

from rsl_rl.utils.height_field import HeightField


def draw_terrain(ground: HeightField, origins: np.ndarray, names: Sequence[str], levels: bool, path: Path) -> None:
    """Write heights with shadows as PNG.

    ``origins`` [rows, columns, 3] are the middles of the tiles, ``names`` the type of each column. ``levels``: whether
    a row is a level.
    """
    (x, y), (length, width) = ground.origin, ground.size
    scale = 16 / max(length, width)
    figure = Figure(figsize=(width * scale + 2.5, length * scale + 2.5), layout="constrained")
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
    figure.savefig(path, dpi=110)


def draw_levels(iterations: Sequence[int], levels: Mapping[str, Sequence[float]], path: Path) -> None:
    """Draw the mean level over the iterations of a training as PNG, a curve for each name; the first is that of all."""
    figure = Figure(figsize=(9, 5), layout="constrained")
    axis = figure.subplots()
    for i, (name, values) in enumerate(levels.items()):
        style = {"color": "black", "linewidth": 2.5} if i == 0 else {"color": f"C{i % 10}", "linewidth": 1.2}
        axis.plot(iterations, values, label=name, linestyle="--" if i > 10 else "-", **style)
    axis.set_xlabel("iteration")
    axis.set_ylabel("mean level")
    axis.set_ylim(bottom=0.0)
    axis.legend(fontsize="small", loc="upper left")
    figure.savefig(path, dpi=110)
