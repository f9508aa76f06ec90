"""Render recorded poses as mp4: `python -m rsl_rl.viz.render_worker RECORDING.npz VIDEO.mp4 [PARENT]`.

PARENT is the id of the parent process; the renderer stops when that process has ended. Rendering runs in a separate
process because OpenGL drivers may be missing or crash.
"""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import List, Optional, Sequence, Tuple

import imageio
import imageio_ffmpeg
import mujoco
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from rsl_rl.utils.height_field import HeightField
from rsl_rl.utils.mujoco_model import load_model
from rsl_rl.viz.scene import add_dots, height_to_look_at, scale_of

_SPACING = 1.5  # between the robots' starting points [m]


def grid(num_robots: int) -> np.ndarray:
    """Return positions [n, 2] on a square grid; the first robot is at the origin."""
    side = int(np.ceil(np.sqrt(num_robots)))
    positions = np.array([(i // side, i % side) for i in range(num_robots)], dtype=float)
    return _SPACING * positions


def render(
    model_path: str,
    poses: np.ndarray,
    captions: Sequence[str],
    fps: float,
    size: Tuple[int, int],
    path: Path,
    parent: Optional[int] = None,
    ground: Optional[HeightField] = None,
    points: Optional[np.ndarray] = None,
) -> None:
    """Render poses [frames, robots, nq] as a video and a contact sheet; the camera follows the first robot.

    On a plane the robots are moved apart. ``points`` [frames, K, 3] are drawn as dots.
    """
    model = load_model(model_path, ground)
    robots = [mujoco.MjData(model) for _ in range(poses.shape[1])]
    offsets = grid(len(robots)) * (ground is None)
    camera, option, perturb = mujoco.MjvCamera(), mujoco.MjvOption(), mujoco.MjvPerturb()
    camera.distance, camera.elevation, camera.azimuth = 2.0 * scale_of(model), -16.0, 125.0
    if ground is not None:  # from higher, so that hills do not hide the robot
        camera.distance, camera.elevation = 1.5 * camera.distance, -30.0
    imageio_ffmpeg.get_ffmpeg_exe()  # fails early if there is none
    font = ImageFont.load_default(size=18)
    chosen: List[Image.Image] = []  # for the contact sheet
    sheet_frames, look_at = evenly_spaced(len(poses)), height_to_look_at(model)
    width, height = size
    with mujoco.Renderer(model, height, width) as renderer, imageio.get_writer(
        path,
        format="FFMPEG",
        fps=fps,
        macro_block_size=8,  # type: ignore[arg-type]  # a name is as good as a plugin
    ) as video:
        for i, (pose, caption) in enumerate(zip(poses, captions)):
            if parent is not None and os.getppid() != parent:
                sys.exit("the parent process has ended")
            for robot, offset, q in zip(robots, offsets, pose):
                robot.qpos[:] = q
                robot.qpos[:2] += offset
                mujoco.mj_kinematics(model, robot)
                mujoco.mj_comPos(model, robot)
                mujoco.mj_camlight(model, robot)
            target = np.array([*robots[0].qpos[:2], look_at if ground is None else robots[0].qpos[2]])
            camera.lookat[:] = target if i == 0 else 0.9 * camera.lookat + 0.1 * target
            renderer.update_scene(robots[0], camera, option)
            for robot in robots[1:]:
                mujoco.mjv_addGeoms(model, robot, option, perturb, mujoco.mjtCatBit.mjCAT_DYNAMIC.value, renderer.scene)
            if points is not None:
                add_dots(renderer.scene, points[i])
            image = Image.fromarray(renderer.render())
            ImageDraw.Draw(image, "RGBA").rectangle((0, height - 32, width, height), fill=(255, 255, 255, 190))
            ImageDraw.Draw(image).text((12, height - 27), caption, fill=(20, 20, 20), font=font)
            video.append_data(np.asarray(image))
            chosen += [image] * sheet_frames.count(i)
    contact_sheet(chosen).save(path.with_name(f"{path.stem}_frames.png"))


def evenly_spaced(num_frames: int, count: int = 6) -> List[int]:
    """Return the indices of evenly spaced frames; with few frames, some are repeated."""
    return [int(i) for i in np.linspace(0, num_frames - 1, count)]


def contact_sheet(chosen: Sequence[Image.Image], columns: int = 3) -> Image.Image:
    """Arrange frames of one size in one image, in reading order."""
    rows = -(-len(chosen) // columns)
    width, height = chosen[0].size[0] * 2 // 3, chosen[0].size[1] * 2 // 3
    sheet = Image.new("RGB", (columns * width, rows * height))
    for i, frame in enumerate(chosen):
        sheet.paste(frame.resize((width, height)), (i % columns * width, i // columns * height))
    return sheet


def main() -> None:
    recording, path = Path(sys.argv[1]), Path(sys.argv[2])
    parent = int(sys.argv[3]) if len(sys.argv) > 3 else None
    with np.load(recording) as data:
        ground = None
        if data["ground"]:
            ground = HeightField(data["heights"], float(data["cell"]), (data["origin"][0], data["origin"][1]))
        render(
            str(data["model_path"]),
            data["poses"],
            [str(caption) for caption in data["captions"]],
            float(data["fps"]),
            (int(data["size"][0]), int(data["size"][1])),
            path,
            parent,
            ground,
            data.get("points"),
        )


if __name__ == "__main__":
    main()
