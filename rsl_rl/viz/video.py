"""Videos and pictures of recorded robots, rendered in a separate process; videos also in the background."""

from __future__ import annotations

import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from rsl_rl.utils.files import make_folder
from rsl_rl.utils.height_field import HeightField
from rsl_rl.utils.host import kill_group

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

_PICTURE_SIZE = (400, 320)
"""Width and height of a picture in a sheet [pixels]."""

_NICENESS = 19
"""Lowest priority, so that a renderer in the background does not slow down the training."""


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
    ground: Optional[HeightField] = None  # None: the ground of the model
    points: Optional[np.ndarray] = None  # [frames, points, 3] in world coordinates, to be drawn as dots
    ghosts: Optional[np.ndarray] = None  # [frames, robots, 7 + J] poses that are drawn beside the robots, transparent

    def arrays(self) -> Dict[str, Any]:
        """Return the contents of a file for the render process."""
        content = {**self._asdict(), "model_path": str(self.model_path), **_ground_arrays(self.ground)}
        return {name: value for name, value in content.items() if value is not None}


def _ground_arrays(ground: Optional[HeightField]) -> Dict[str, Any]:
    """Return a ground as contents of a file for the render process."""
    if ground is None:
        return {"ground": False}
    return {"ground": True, "heights": ground.heights, "cell": ground.cell, "origin": ground.origin}


class Picture(NamedTuple):
    """One picture of a sheet."""

    pose: np.ndarray  # [7 + J] root position [m], quaternion w x y z, joint angles [rad]
    caption: str
    azimuth: float = 125.0  # direction of view [deg]; 180 looks at the robot from the front, 90 from the right
    ghost: Optional[np.ndarray] = None  # [7 + J] pose that is drawn too, transparent; of all pictures, or of none


class Renderer:
    """Run one render process at a time; another thread may stop it.

    ``niceness`` above 0 lowers the priority of the process. It ends when its parent process ends.
    """

    def __init__(self, niceness: int = 0):
        self._prefix = ["nice", "-n", str(niceness)] if niceness and shutil.which("nice") else []
        self._lock = threading.Lock()
        self._process: Optional[subprocess.Popen] = None
        self.stopped = False

    def run(self, recording: Path, path: Path, driver: str, timeout: float) -> Optional[str]:
        """Render with an OpenGL driver and a timeout [s]; return one line on the failure, or None."""
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
                start_new_session=True,  # Ctrl-C reaches only this process, which then kills the group with ffmpeg
            )
        try:
            _, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            kill_group(process)
            process.communicate()
            return f"the renderer had not finished after {timeout:.0f} s"
        except BaseException:  # such as a KeyboardInterrupt
            kill_group(process)
            raise
        if process.returncode == 0:
            return None
        return (errors.strip().splitlines() or [f"the renderer ended with code {process.returncode}"])[-1]

    def stop(self) -> None:
        """Kill the running process and its children, and start no other."""
        with self._lock:
            self.stopped = True
            if self._process is not None and self._process.poll() is None:
                kill_group(self._process)


def write_video(
    path: Path, clip: VideoClip, size: Tuple[int, int] = (960, 544), renderer: Optional[Renderer] = None
) -> Path:
    """Write a clip as mp4, and a contact sheet of six frames as ``<name>_frames.png``; no partial file is left."""
    renderer = renderer or Renderer()
    with tempfile.TemporaryDirectory(prefix=f".{path.stem}.", suffix=PART_SUFFIX, dir=path.parent) as folder:
        recording, result = Path(folder) / "recording.npz", Path(folder) / path.name
        np.savez(recording, **clip.arrays(), size=size)
        render(renderer, recording, result, len(clip.poses), "video")
        for made in (result, contact_sheet_path(result)):
            os.replace(made, path.parent / made.name)
    return path


@contextmanager
def video_in_background(path: Path, clip: VideoClip) -> Iterator[Future[Path]]:
    """Write a clip as :func:`write_video` does, while the body runs.

    The body has to call ``result()`` of the future, which waits for the video: at the end of the body, one that is not
    finished is discarded.
    """
    renderer = Renderer()
    with ThreadPoolExecutor(1, "video") as executor:
        try:
            yield executor.submit(write_video, path, clip, renderer=renderer)
        finally:
            renderer.stop()


def write_film(path: Path, clip: VideoClip, size: Tuple[int, int]) -> None:
    """Write a clip as an animated picture, name.webp, of a width and height [pixels]; no OpenGL driver is a
    VideoError."""
    with tempfile.TemporaryDirectory() as folder:
        recording = Path(folder) / "recording.npz"
        np.savez(recording, **clip.arrays(), size=size)
        render(Renderer(), recording, path, len(clip.poses), "film")


def write_pictures(
    path: Path,
    model_path: Path,
    pictures: Sequence[Picture],
    columns: int,
    ground: Optional[HeightField] = None,
    axes: bool = False,
) -> None:
    """Write pictures as one PNG, ``columns`` in a row; a missing OpenGL driver is a VideoError.

    The model is an MJCF file or MuJoCo's .mjb. ``axes`` draws those of its first body.
    """
    with tempfile.TemporaryDirectory() as folder:
        recording = Path(folder) / "pictures.npz"
        np.savez(
            recording,
            model_path=str(model_path),
            poses=np.array([picture.pose for picture in pictures]),
            captions=[picture.caption for picture in pictures],
            azimuths=np.array([picture.azimuth for picture in pictures]),
            **({"ghosts": np.array([x.ghost for x in pictures])} if pictures[0].ghost is not None else {}),
            columns=columns,
            axes=axes,
            size=_PICTURE_SIZE,
            **_ground_arrays(ground),
        )
        render(Renderer(), recording, path, len(pictures), "pictures")


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


class VideoQueue:
    """Render clips one after the other, in the order in which they are added, in a separate thread.

    After the first failure that is not a full disk, ``broken`` is true and no more clips are rendered.
    """

    def __init__(self) -> None:
        self.broken = False
        self._renderer = Renderer(_NICENESS)
        self._videos: queue.Queue[Tuple[Path, VideoClip]] = queue.Queue()
        self._messages: queue.Queue[str] = queue.Queue()
        self._all_done = threading.Condition()
        self.pending = 0  # clips that are not finished
        threading.Thread(target=self._work, name="videos", daemon=True).start()

    def add(self, path: Path, clip: VideoClip) -> None:
        """Add a clip to the queue."""
        with self._all_done:
            self.pending += 1
        self._videos.put((path, clip))

    def pop_messages(self) -> List[str]:
        """Return a line on each clip that was finished or failed since the last call."""
        lines = []
        while not self._messages.empty():
            lines.append(self._messages.get())
        return lines

    def wait(self, seconds: float) -> bool:
        """Wait for all clips with a timeout [s]; return whether they are finished."""
        with self._all_done:
            return self._all_done.wait_for(lambda: self.pending == 0, seconds)

    def stop(self) -> None:
        """Discard unfinished clips; return when their temporary files are removed."""
        self._renderer.stop()
        with self._all_done:
            self._all_done.wait_for(lambda: self.pending == 0)

    def _work(self) -> None:
        while True:
            path, clip = self._videos.get()
            try:
                if not self.broken and not self._renderer.stopped:
                    self._make(path, clip)
            finally:
                with self._all_done:
                    self.pending -= 1
                    self._all_done.notify_all()

    def _make(self, path: Path, clip: VideoClip) -> None:
        try:
            make_folder(path.parent)
            write_video(path, clip, renderer=self._renderer)
        except (OSError, DiskFullError) as error:  # a full disk; there may be space for the next video
            self._messages.put(f"warning: no video {path.name} ({error}); the next one is tried")
        except Exception as error:  # no error of a video may end the training
            self.broken = True
            if not self._renderer.stopped:
                reason = str(error) if isinstance(error, VideoError) else f"no video: {error!r}"
                self._messages.put(f"warning: {reason}; training continues without videos")
        else:
            self._messages.put(f"video: {path} (contact sheet: {contact_sheet_path(path).name})")
