"""Videos of recorded robots, rendered in a separate process."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

_DRIVER_REMEDY = (
    "install an OpenGL driver, on Debian or Ubuntu: apt-get install libegl1 libegl-mesa0 libgl1-mesa-dri libgles2, or "
    "libosmesa6"
)
_REMEDIES = (
    ("no module named", "install the extra: pip install 'rsl-rl-lib[video]'"),
    ("no space left", "make room on the disk"),
    ("ffmpeg", "install the extra: pip install 'rsl-rl-lib[video]'"),
    ("", _DRIVER_REMEDY),
)


_STARTING_TIME, _FRAME_TIME = 120.0, 5.0
"""Timeouts of the renderer for its start and for each frame, long enough for a busy machine [s]."""

PART_SUFFIX = ".part"
"""Suffix of the temporary folder in which a video is made."""


class VideoError(RuntimeError):
    """A video that could not be rendered; the message says what to install."""


class DiskFullError(VideoError):
    """The disk is full; a later attempt may succeed."""


class VideoClip(NamedTuple):
    """Frames of a video, as robot poses with captions."""

    model_path: Path
    poses: np.ndarray  # [frames, robots, 7 + J] root position [m], quaternion w x y z, joint angles [rad]
    captions: Sequence[str]  # one for each frame
    fps: float


class Renderer:
    """Run one render process at a time; another thread may stop it.

    ``niceness`` above 0 lowers the priority of the process. It ends when its parent process ends. ``worker`` is the
    module that it runs.
    """

    def __init__(self, niceness: int = 0, worker: str = "rsl_rl.viz.render_worker"):
        self._worker = worker
        self._prefix = ["nice", "-n", str(niceness)] if niceness and shutil.which("nice") else []
        self._lock = threading.Lock()
        self._process: Optional[subprocess.Popen] = None
        self.stopped = False

    def run(self, recording: Path, path: Path, driver: str, timeout: float) -> Optional[str]:
        """Render with an OpenGL driver and a timeout [s]; return one line on the failure, or None."""
        module = [sys.executable, "-m", self._worker]
        command = [*self._prefix, *module, str(recording), str(path), str(os.getpid())]
        environment = {**os.environ, "MUJOCO_GL": driver} if driver else None
        with self._lock:
            if self.stopped:
                return "stopped"
            self._process = process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                env=environment,
                start_new_session=True,  # Ctrl-C reaches only this process, which then kills the group with ffmpeg
            )
        try:
            _, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            _kill(process)
            process.communicate()
            return f"the renderer had not finished after {timeout:.0f} s"
        except BaseException:  # such as a KeyboardInterrupt
            _kill(process)
            raise
        if process.returncode == 0:
            return None
        return (errors.strip().splitlines() or [f"the renderer ended with code {process.returncode}"])[-1]

    def stop(self) -> None:
        """Kill the running process and its children, and start no other."""
        with self._lock:
            self.stopped = True
            if self._process is not None and self._process.poll() is None:
                _kill(self._process)


def _kill(process: subprocess.Popen) -> None:
    """Kill a process and, on systems that have process groups, its group."""
    with contextlib.suppress(ProcessLookupError):  # it has already ended
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def write_video(
    path: Path, clip: VideoClip, size: Tuple[int, int] = (960, 540), renderer: Optional[Renderer] = None
) -> Path:
    """Write a clip as mp4, and a contact sheet of six frames as ``<name>_frames.png``; no partial file is left."""
    renderer = renderer or Renderer()
    with tempfile.TemporaryDirectory(prefix=f".{path.stem}.", suffix=PART_SUFFIX, dir=path.parent) as folder:
        recording, result = Path(folder) / "recording.npz", Path(folder) / path.name
        np.savez(recording, **{**clip._asdict(), "model_path": str(clip.model_path)}, size=size)
        render(renderer, recording, result, len(clip.poses), "video")
        for made in (result, contact_sheet_path(result)):
            os.replace(made, path.parent / made.name)
    return path


def render(renderer: Renderer, recording: Path, result: Path, num_frames: int, what: str) -> None:
    """Render a recording with the first OpenGL driver that works; none is a VideoError."""
    errors: List[str] = []
    for driver in _drivers():
        error = renderer.run(recording, result, driver, _STARTING_TIME + _FRAME_TIME * num_frames)
        if error is None:
            return
        errors.append(error)
        if _remedy(error) != _DRIVER_REMEDY:
            break  # the error does not depend on the driver
    kind = DiskFullError if "no space left" in errors[-1].lower() else VideoError
    raise kind(f"no {what}: {errors[0]}; {_remedy(errors[-1])}")


def contact_sheet_path(path: Path) -> Path:
    """Return the path of a video's contact sheet."""
    return path.with_name(f"{path.stem}_frames.png")


def _drivers() -> List[str]:
    """Return values of MUJOCO_GL to try: the user's choice, or drivers without a display before the one with it."""
    chosen = os.environ.get("MUJOCO_GL", "")
    if chosen or not sys.platform.startswith("linux"):
        return [chosen]
    return ["egl", "osmesa", *(["glfw"] if os.environ.get("DISPLAY") else [])]


def _remedy(error: str) -> str:
    return next(remedy for sign, remedy in _REMEDIES if sign in error.lower())
