"""Films of recorded robots, rendered in a process of their own."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Sequence, Tuple

import numpy as np

_REMEDIES = (
    ("No module named", "install the extra: pip install 'rsl-rl-lib[video]'"),
    ("ffmpeg", "install the extra: pip install 'rsl-rl-lib[video]'"),
    (
        "",
        "install an OpenGL driver, on Debian or Ubuntu: apt-get install libegl1 libegl-mesa0 libgl1-mesa-dri libgles2",
    ),
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
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or [f"the renderer ended with code {done.returncode}"])[-1]
        remedy = next(remedy for sign, remedy in _REMEDIES if sign in reason)
        raise VideoError(f"no video: {reason}; {remedy}")
    return path
