"""NPZ files of mjlab and of BeyondMimic (whole_body_tracking): joint angles and the poses of all bodies.

Neither names joints or bodies. mjlab writes them in the order of MuJoCo, BeyondMimic in that of Isaac Lab, with
quaternions w x y z; both have the keys fps, joint_pos, joint_vel, body_pos_w, body_quat_w, body_lin_vel_w and
body_ang_vel_w.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Dict

import numpy as np

from rsl_rl.motion.clip import Clip, read_arrays
from rsl_rl.motion.importers.qpos import rate_of
from rsl_rl.motion.importers.source import Given, Source
from rsl_rl.utils.files import atomic_write


def read(path: Path, given: Given) -> Source:
    """Return what a file says."""
    return from_arrays(path, read_arrays(path))


def from_arrays(path: Path, arrays: Dict[str, np.ndarray]) -> Source:
    """Return what arrays say."""
    pos, quat, joints = (arrays.get(name) for name in ("body_pos_w", "body_quat_w", "joint_pos"))
    if pos is None or quat is None or joints is None:
        raise ValueError(f"{path} has {', '.join(sorted(arrays))}; body_pos_w, body_quat_w and joint_pos are needed")
    if pos.ndim != 3 or pos.shape[2] != 3 or quat.shape != (*pos.shape[:2], 4) or joints.ndim != 2:
        raise ValueError(
            f"{path}: body_pos_w has {list(pos.shape)}, body_quat_w {list(quat.shape)} and joint_pos "
            f"{list(joints.shape)}; [F, B, 3], [F, B, 4] and [F, J] are needed"
        )
    return Source(path.name, rate_of(path, arrays), joints=joints, body_pos=pos, body_quat=quat)


def write(clip: Clip, path: Path) -> None:
    """Write a clip as mjlab reads it: joints and bodies in the model's order."""
    names = ("joint_pos", "joint_vel", "link_pos", "link_quat", "link_vel", "link_ang_vel")
    keys = ("joint_pos", "joint_vel", "body_pos_w", "body_quat_w", "body_lin_vel_w", "body_ang_vel_w")
    arrays = {key: getattr(clip, name).numpy().astype(np.float32) for key, name in zip(keys, names)}
    buffer = io.BytesIO()
    np.savez(buffer, fps=np.array([clip.fps]), **arrays)  # type: ignore[arg-type]
    atomic_write(path, buffer.getvalue())
