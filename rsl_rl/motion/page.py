"""Gather what a page that plays a clip needs: the robot's model and its pose in each frame."""

from __future__ import annotations

import numpy as np

from rsl_rl.motion.clip import Clip
from rsl_rl.robots import Robot
from rsl_rl.utils.mujoco_model import file_to_draw, load_model
from rsl_rl.viz.page import PageFact, PageMotion, pack
from rsl_rl.viz.page_model import read_model


def gather_motion(clip: Clip, robot: Robot, robot_name: str) -> PageMotion:
    """Return the motion of a page for a clip of the robot; numbers that are not finite are a ValueError.

    ``robot_name`` is shown to the user.
    """
    file = file_to_draw(robot.model_path)
    model = load_model(file)
    poses = np.tile(model.qpos0, (clip.num_frames, 1))
    poses[:, :3], poses[:, 3:7] = clip.root_pos, clip.root_quat
    poses[:, [int(model.joint(name).qposadr[0]) for name in clip.joint_names]] = clip.joint_pos
    if not np.isfinite(poses).all():
        raise ValueError(
            f"the clip '{clip.name}' has numbers that are not finite; mend it with `rsl-rl motion check --mend nan`"
        )
    text, assets = read_model(file)
    facts = {
        "Robot": robot_name,
        "Length": f"{clip.length:.2f} s",
        "Frames": f"{clip.num_frames} at {clip.fps:g} Hz",
        "Loop": "yes" if clip.loop else "no",
    }
    return PageMotion(
        name=clip.name,
        model=text,
        assets={name: pack(content) for name, content in assets.items()},
        poses=pack(poses.astype("<f4").tobytes()),
        fps=clip.fps,
        loop=clip.loop,
        standing_height=robot.standing_height,
        card=[PageFact(name, value) for name, value in facts.items()],
    )
