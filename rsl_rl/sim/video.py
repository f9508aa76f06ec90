"""Films of recorded robots, rendered in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import List, Optional, Sequence, Tuple

import numpy as np

_DRIVER_REMEDY = (
    "install an OpenGL driver, on Debian or Ubuntu: apt-get install libegl1 libegl-mesa0 libgl1-mesa-dri libgles2, or "
    "libosmesa6"
)
_REMEDIES = (
    ("no module named", "install the extra: pip install 'rsl-rl-lib[video]'"),
    ("ffmpeg", "install the extra: pip install 'rsl-rl-lib[video]'"),
    ("", _DRIVER_REMEDY),
)


class VideoError(RuntimeError):
    """A film that could not be made; the message says what to install."""


def write_video(
    path: Path,
    model_path: Path,
    poses: np.ndarray,
    captions: Sequence[str],
    fps: float,
    size: Tuple[int, int] = (960, 540),
) -> Path:
    """Film poses [frames, robots, 7 + J] (root position [m], quaternion w x y z, joint angles [rad]) as mp4.

    Beside the film, ``<name>_frames.png`` shows six frames of it at a glance.
    """
    with tempfile.TemporaryDirectory() as folder:
        recording = Path(folder) / "recording.npz"
        np.savez(recording, model_path=str(model_path), poses=poses, captions=captions, fps=fps, size=size)
        command = [sys.executable, "-m", "rsl_rl.sim.render_video", str(recording), str(path)]
        errors = []
        for driver in _drivers():
            error = _run(command, driver)
            if error is None:
                return path
            errors.append(error)
            if _remedy(error) != _DRIVER_REMEDY:
                break  # another driver would not help
    raise VideoError(f"no video: {errors[0]}; {_remedy(errors[-1])}")


def _drivers() -> List[str]:
    """Return what MUJOCO_GL may be, the best first: the user's choice, or what draws without a display, and after that
    with one."""
    chosen = os.environ.get("MUJOCO_GL", "")
    if chosen or not sys.platform.startswith("linux"):
        return [chosen]
    return ["egl", "osmesa", *(["glfw"] if os.environ.get("DISPLAY") else [])]


def _run(command: Sequence[str], driver: str) -> Optional[str]:
    """Render with a driver and return in one line why it failed, or None."""
    environment = {**os.environ, "MUJOCO_GL": driver} if driver else None
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode == 0:
        return None
    return (done.stderr.strip().splitlines() or [f"the renderer ended with code {done.returncode}"])[-1]


def _remedy(error: str) -> str:
    return next(remedy for sign, remedy in _REMEDIES if sign in error.lower())
