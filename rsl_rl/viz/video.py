"""Films of recorded robots, rendered in a process of their own."""

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
"""Longest time that a renderer may take to start, and for each frame, on a machine that does other things too [s]."""

PART = ".part"
"""Ending of the folder beside a film in which it is made."""


class VideoError(RuntimeError):
    """A film that could not be made; the message says what to install."""


class NoRoomError(VideoError):
    """The disk is full; another time it may not be."""


class Film(NamedTuple):
    """What is to be shown, and how fast."""

    model_path: Path
    poses: np.ndarray  # [frames, robots, 7 + J] root position [m], quaternion w x y z, joint angles [rad]
    captions: Sequence[str]  # one a frame
    fps: float


class Renderer:
    """Runs one renderer's process at a time, which another thread may end.

    ``niceness`` above 0 lets everything else on the machine go first. A process that ends takes its renderer with it.
    """

    def __init__(self, niceness: int = 0):
        self._prefix = ["nice", "-n", str(niceness)] if niceness and shutil.which("nice") else []
        self._lock = threading.Lock()
        self._process: Optional[subprocess.Popen] = None
        self.stopped = False

    def run(self, recording: Path, path: Path, driver: str, patience: float) -> Optional[str]:
        """Render with a driver, for ``patience`` seconds at most, and return in one line why it failed, or None."""
        module = [sys.executable, "-m", "rsl_rl.viz.render_worker"]
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
                start_new_session=True,  # a Ctrl-C is for us, and ffmpeg below it ends with it
            )
        try:
            _, errors = process.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            _kill(process)
            process.communicate()
            return f"the renderer was not done after {patience:.0f} s"
        except BaseException:  # such as a KeyboardInterrupt
            _kill(process)
            raise
        if process.returncode == 0:
            return None
        return (errors.strip().splitlines() or [f"the renderer ended with code {process.returncode}"])[-1]

    def stop(self) -> None:
        """End the process that runs, with all that it has started, and let no other begin."""
        with self._lock:
            self.stopped = True
            if self._process is not None and self._process.poll() is None:
                _kill(self._process)


def _kill(process: subprocess.Popen) -> None:
    """End a process that leads a group, and the group where the system knows such a thing."""
    with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def write_video(
    path: Path, film: Film, size: Tuple[int, int] = (960, 540), renderer: Optional[Renderer] = None
) -> Path:
    """Write a film as mp4, and beside it ``<name>_frames.png``, six frames of it at a glance; each whole or not at
    all."""
    renderer, errors = renderer or Renderer(), []
    with tempfile.TemporaryDirectory(prefix=f".{path.stem}.", suffix=PART, dir=path.parent) as folder:
        recording, result = Path(folder) / "recording.npz", Path(folder) / path.name
        np.savez(recording, **{**film._asdict(), "model_path": str(film.model_path)}, size=size)
        for driver in _drivers():
            error = renderer.run(recording, result, driver, _STARTING_TIME + _FRAME_TIME * len(film.poses))
            if error is None:
                for made in (result, frames_of(result)):
                    os.replace(made, path.parent / made.name)
                return path
            errors.append(error)
            if _remedy(error) != _DRIVER_REMEDY:
                break  # another driver would not help
    kind = NoRoomError if "no space left" in errors[-1].lower() else VideoError
    raise kind(f"no video: {errors[0]}; {_remedy(errors[-1])}")


def frames_of(path: Path) -> Path:
    """Return the place of a film's picture."""
    return path.with_name(f"{path.stem}_frames.png")


def _drivers() -> List[str]:
    """Return what MUJOCO_GL may be, the best first: the user's choice, or what draws without a display, and after that
    with one."""
    chosen = os.environ.get("MUJOCO_GL", "")
    if chosen or not sys.platform.startswith("linux"):
        return [chosen]
    return ["egl", "osmesa", *(["glfw"] if os.environ.get("DISPLAY") else [])]


def _remedy(error: str) -> str:
    return next(remedy for sign, remedy in _REMEDIES if sign in error.lower())
