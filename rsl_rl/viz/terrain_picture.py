"""Picture of a terrain seen from above."""

from __future__ import annotations

from pathlib import Path
from typing import Sequence

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
