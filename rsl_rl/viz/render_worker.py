"""Render recorded poses: `python -m rsl_rl.viz.render_worker RECORDING.npz VIDEO.mp4 [PARENT]`, FILM.webp or SHEET.png.

The recording is that of a function of :mod:`rsl_rl.viz.video`. PARENT is the id of the parent process; the rendering of
a video stops when that process has ended. Rendering runs in a separate
process because OpenGL drivers may be missing or crash.
"""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Iterator, List, Optional, Sequence

import mujoco
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from rsl_rl.utils.height_field import HeightField
from rsl_rl.utils.mujoco_model import file_to_draw, load_model
from rsl_rl.viz.scene import (
    add_axes,
    add_dots,
    add_pose,
    draw_faster,
    ghost_of,
    height_to_look_at,
    places_of,
    scale_of,
)

_MARGIN = 12
"""Distance of captions from the left and right edge [pixels]."""


def render_video(recorded: Any, path: Path, parent: Optional[int]) -> None:
    """Write poses [frames, robots, nq] as a video and a contact sheet."""
    import imageio
    import imageio_ffmpeg

    imageio_ffmpeg.get_ffmpeg_exe()  # fails early if there is none
    chosen: List[Image.Image] = []  # for the contact sheet
    sheet_frames = evenly_spaced(len(recorded["poses"]))
    with imageio.get_writer(
        path,
        format="FFMPEG",
        fps=float(recorded["fps"]),
        macro_block_size=8,  # type: ignore[arg-type]  # a name is as good as a plugin
        output_params=["-preset", "veryfast"],  # half the time, and no larger files
    ) as video:
        for i, image in enumerate(frames(recorded, parent)):
            video.append_data(np.asarray(image))
            chosen += [image] * sheet_frames.count(i)
    contact_sheet(chosen).save(path.with_name(f"{path.stem}_frames.png"))


def render_film(recorded: Any, path: Path, parent: Optional[int]) -> None:
    """Write poses [frames, robots, nq] as an animated picture, WebP, which web pages show without a player."""
    first, *others = frames(recorded, parent)
    period = round(1000 / float(recorded["fps"]))  # [ms]
    first.save(path, save_all=True, append_images=others, duration=period, loop=0, quality=50, method=6)


def frames(recorded: Any, parent: Optional[int]) -> Iterator[Image.Image]:
    """Yield a picture of each pose; the camera follows the first robot.

    On a plane the robots are moved apart, the first one stays at its place.
    """
    ground, points, poses = ground_of(recorded), recorded.get("points"), recorded["poses"]
    ghosts = recorded.get("ghosts")
    model = load_model(file_to_draw(str(recorded["model_path"])), ground)
    ghost = ghost_of(model)
    ghost_data = mujoco.MjData(ghost)
    robots = [mujoco.MjData(model) for _ in range(poses.shape[1])]
    offsets = places_of(len(robots)) * (ground is None)
    camera, option, perturb = mujoco.MjvCamera(), mujoco.MjvOption(), mujoco.MjvPerturb()
    camera.distance, camera.elevation, camera.azimuth = 2.0 * scale_of(model), -16.0, 125.0
    if ground is not None:  # from higher, so that hills do not hide the robot
        camera.distance, camera.elevation = 1.5 * camera.distance, -30.0
    else:
        model.vis.map.shadowclip *= 2  # beyond it, the floor has black dots; 5 gives striped trunks
        places = np.nan_to_num(np.abs(poses[..., :2] + offsets), posinf=0.0)
        draw_faster(model, float(places.max(initial=0.0)) + camera.distance)
    width, height = (int(x) for x in recorded["size"])
    text = caption_height(recorded["captions"], width, height)
    font, look_at = ImageFont.load_default(size=text), height_to_look_at(model)
    with mujoco.Renderer(model, height, width) as renderer:
        for i, (pose, caption) in enumerate(zip(poses, recorded["captions"])):
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
            for offset, q in zip(offsets, [] if ghosts is None else ghosts[i]):
                add_pose(renderer.scene, ghost, ghost_data, np.concatenate([q[:2] + offset, q[2:]]))
            image = Image.fromarray(renderer.render())
            ImageDraw.Draw(image, "RGBA").rectangle((0, height - text - 14, width, height), fill=(255, 255, 255, 190))
            ImageDraw.Draw(image).text((_MARGIN, height - text - 9), str(caption), fill=(20, 20, 20), font=font)
            yield image


def caption_height(captions: Sequence[str], width: int, height: int) -> int:
    """Return the largest height of text [pixels], at most 18, at which all captions fit into pictures of a width and
    height; at least 8. It is one height for all frames, so that the text does not jump."""
    for size in range(min(18, height // 20), 8, -1):
        font = ImageFont.load_default(size=size)
        if all(font.getlength(str(caption)) <= width - 2 * _MARGIN for caption in captions):
            return size
    return 8


def ground_of(recorded: Any) -> Optional[HeightField]:
    """Return the ground of a recording, None for that of the model."""
    if not recorded["ground"]:
        return None
    x, y = recorded["origin"]
    return HeightField(recorded["heights"], float(recorded["cell"]), (x, y))


def evenly_spaced(num_frames: int) -> List[int]:
    """Return the indices of six evenly spaced frames; with few frames, some are repeated."""
    return [int(i) for i in np.linspace(0, num_frames - 1, 6)]


def contact_sheet(chosen: Sequence[Image.Image]) -> Image.Image:
    """Arrange frames of one size in one image, three in a row, in reading order."""
    width, height = chosen[0].size[0] * 2 // 3, chosen[0].size[1] * 2 // 3
    sheet = Image.new("RGB", (3 * width, -(-len(chosen) // 3) * height))
    for i, frame in enumerate(chosen):
        sheet.paste(frame.resize((width, height)), (i % 3 * width, i // 3 * height))
    return sheet


def render_pictures(recorded: Any, path: Path) -> None:
    """Render one robot in several poses [pictures, nq], each from its own direction, as one PNG."""
    ground, file = ground_of(recorded), Path(str(recorded["model_path"]))
    model = (
        mujoco.MjModel.from_binary_path(str(file)) if file.suffix == ".mjb" else load_model(file_to_draw(file), ground)
    )
    parts = ~np.isin(model.geom_type, (mujoco.mjtGeom.mjGEOM_PLANE, mujoco.mjtGeom.mjGEOM_HFIELD))
    data = mujoco.MjData(model)
    width, height = (int(x) for x in recorded["size"])
    columns = int(recorded["columns"])
    rows = -(-len(recorded["poses"]) // columns)
    sheet = Image.new("RGB", (columns * width, rows * height), "white")
    font = ImageFont.load_default(size=15)
    camera = mujoco.MjvCamera()
    with mujoco.Renderer(model, height, width) as renderer:
        for i, (pose, caption, azimuth) in enumerate(
            zip(*(recorded[name] for name in ("poses", "captions", "azimuths")))
        ):
            data.qpos[:] = pose
            mujoco.mj_forward(model, data)
            centers = np.concatenate([data.xpos[1:], data.geom_xpos[parts]])  # a source may have no shapes
            radii = np.concatenate([np.zeros(model.nbody - 1), model.geom_rbound[parts]])[:, None]
            low, high = (centers - radii).min(axis=0), (centers + radii).max(axis=0)
            size = float(np.linalg.norm(high - low)) + 0.01
            camera.lookat[:], camera.distance = (low + high) / 2, 1.25 * size
            camera.azimuth, camera.elevation = azimuth, -16.0 if ground is None else -30.0
            renderer.update_scene(data, camera)
            if "ghosts" in recorded:
                ghost = ghost_of(model)
                add_pose(renderer.scene, ghost, mujoco.MjData(ghost), recorded["ghosts"][i])
            if recorded["axes"]:
                add_axes(renderer.scene, data.xpos[1], data.xmat[1].reshape(3, 3), 0.3 * size)
            image = Image.fromarray(renderer.render())
            ImageDraw.Draw(image, "RGBA").rectangle((0, height - 24, width, height), fill=(255, 255, 255, 200))
            ImageDraw.Draw(image).text((8, height - 22), str(caption), fill=(20, 20, 20), font=font)
            sheet.paste(image, (i % columns * width, i // columns * height))
    sheet.save(path)


def main() -> None:
    path, parent = Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else None
    with np.load(sys.argv[1]) as recorded:
        if path.suffix == ".png":
            render_pictures(recorded, path)
        elif path.suffix == ".webp":
            render_film(recorded, path, parent)
        else:
            render_video(recorded, path, parent)


if __name__ == "__main__":
    main()
