"""Render pictures of a robot as one PNG: `python -m rsl_rl.viz.picture_worker PICTURES.npz SHEET.png`.

Rendering runs in a separate process because OpenGL drivers may be missing or crash.
"""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from PIL import Image, ImageDraw, ImageFont


def render(recorded: Any, path: Path) -> None:
    """Render the pictures that :func:`rsl_rl.viz.pictures.write_pictures` has saved."""
    model = mujoco.MjModel.from_xml_path(str(recorded["model_path"]))
    data = mujoco.MjData(model)
    width, height = (int(x) for x in recorded["size"])
    columns = int(recorded["columns"])
    rows = -(-len(recorded["poses"]) // columns)
    sheet = Image.new("RGB", (columns * width, rows * height), "white")
    font = ImageFont.load_default(size=15)
    camera = mujoco.MjvCamera()
    with mujoco.Renderer(model, height, width) as renderer:
        for i, (pose, caption, view) in enumerate(zip(recorded["poses"], recorded["captions"], recorded["views"])):
            data.qpos[:] = pose
            mujoco.mj_forward(model, data)
            points = data.geom_xpos[1:]  # without the floor
            low, high = points.min(axis=0), points.max(axis=0)
            camera.lookat[:] = (low + high) / 2
            camera.distance = 2.0 * float(np.linalg.norm(high - low)) + 0.1
            camera.azimuth, camera.elevation = view
            renderer.update_scene(data, camera)
            image = Image.fromarray(renderer.render())
            ImageDraw.Draw(image, "RGBA").rectangle((0, height - 24, width, height), fill=(255, 255, 255, 200))
            ImageDraw.Draw(image).text((8, height - 22), str(caption), fill=(20, 20, 20), font=font)
            sheet.paste(image, (i % columns * width, i // columns * height))
    sheet.save(path)


def main() -> None:
    with np.load(sys.argv[1]) as recorded:
        render(recorded, Path(sys.argv[2]))


if __name__ == "__main__":
    main()
