"""Render videos in the background."""

from __future__ import annotations

import queue
import threading
from pathlib import Path
from typing import List, Tuple

from rsl_rl.viz.video import DiskFullError, Renderer, VideoClip, VideoError, contact_sheet_path, write_video

_NICENESS = 19
"""Lowest priority, so that the renderer does not slow down the training."""


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
        self._pending = 0
        threading.Thread(target=self._work, name="videos", daemon=True).start()

    @property
    def pending(self) -> int:
        """Number of clips that are not finished."""
        return self._pending

    def add(self, path: Path, clip: VideoClip) -> None:
        """Add a clip to the queue."""
        with self._all_done:
            self._pending += 1
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
            return self._all_done.wait_for(lambda: self._pending == 0, seconds)

    def stop(self) -> None:
        """Discard unfinished clips; return when their temporary files are removed."""
        self._renderer.stop()
        with self._all_done:
            self._all_done.wait_for(lambda: self._pending == 0)

    def _work(self) -> None:
        while True:
            path, clip = self._videos.get()
            try:
                if not self.broken and not self._renderer.stopped:
                    self._make(path, clip)
            finally:
                with self._all_done:
                    self._pending -= 1
                    self._all_done.notify_all()

    def _make(self, path: Path, clip: VideoClip) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
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
