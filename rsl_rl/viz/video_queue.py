"""Films that are made while something else goes on."""

from __future__ import annotations

import queue
import threading
from pathlib import Path
from typing import List, Tuple

from rsl_rl.viz.video import Film, NoRoomError, Renderer, VideoError, frames_of, write_video

_NICENESS = 19
"""Priority of the renderer: the last, so that whoever works beside it keeps the cores."""


class FilmQueue:
    """Makes films one after the other, in the order in which they are added, in a thread of its own.

    The first that cannot be made for want of a driver or a package is the last: ``broken`` tells.
    """

    def __init__(self) -> None:
        self.broken = False
        self._renderer = Renderer(_NICENESS)
        self._films: queue.Queue[Tuple[Path, Film]] = queue.Queue()
        self._news: queue.Queue[str] = queue.Queue()
        self._all_done = threading.Condition()
        self._pending = 0
        threading.Thread(target=self._work, name="films", daemon=True).start()

    @property
    def pending(self) -> int:
        """Films that are not done yet."""
        return self._pending

    def add(self, path: Path, film: Film) -> None:
        """Have a film made."""
        with self._all_done:
            self._pending += 1
        self._films.put((path, film))

    def news(self) -> List[str]:
        """Return a line on each film that was done, or could not be, since the last call."""
        lines = []
        while not self._news.empty():
            lines.append(self._news.get())
        return lines

    def wait(self, seconds: float) -> bool:
        """Wait at most so long for all films, and return whether they are done."""
        with self._all_done:
            return self._all_done.wait_for(lambda: self._pending == 0, seconds)

    def stop(self) -> None:
        """Give up what is not done, and return when nothing of it is left."""
        self._renderer.stop()
        with self._all_done:
            self._all_done.wait_for(lambda: self._pending == 0)

    def _work(self) -> None:
        while True:
            path, film = self._films.get()
            try:
                if not self.broken and not self._renderer.stopped:
                    self._make(path, film)
            finally:
                with self._all_done:
                    self._pending -= 1
                    self._all_done.notify_all()

    def _make(self, path: Path, film: Film) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_video(path, film, renderer=self._renderer)
        except (OSError, NoRoomError) as error:  # a full disk, which may have room for the next one
            self._news.put(f"warning: no video {path.name} ({error}); the next one is tried")
        except Exception as error:  # whatever it is, it is no reason to end what goes on beside it
            self.broken = True
            if not self._renderer.stopped:
                said = str(error) if isinstance(error, VideoError) else f"no video: {error!r}"
                self._news.put(f"warning: {said}; training goes on without films")
        else:
            self._news.put(f"video: {path} (at a glance: {frames_of(path).name})")
