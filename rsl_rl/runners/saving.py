"""Checkpoints of a running training, on disks that may refuse them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, Optional

from rsl_rl.config.learn import RunnerConfig
from rsl_rl.runners.checkpoint import prune_checkpoints, write_checkpoint


class CheckpointSaver:
    """Writes ``model_<iteration>.pt`` into a run folder, when it is time; a refusal is told and tried again later.

    Without a folder there is nothing to save, and that always succeeds.
    """

    def __init__(self, folder: Optional[Path], cfg: RunnerConfig, tell: Callable[[str], None]):
        self._folder, self._cfg, self._tell = folder, cfg, tell
        self._saved: Optional[int] = None  # iteration of the newest checkpoint
        self._retry_at: Optional[int] = None
        self._pause = 1  # iterations between attempts

    def take_note(self, iteration: int) -> None:
        """Leave the checkpoint of an iteration alone that is there already."""
        if self._folder is not None and (self._folder / f"model_{iteration}.pt").exists():
            self._saved = iteration

    def due(self, iteration: int) -> bool:
        """Tell whether it is time for a checkpoint."""
        retry = self._retry_at is not None and iteration >= self._retry_at
        return retry or iteration % self._cfg.save_interval == 0

    def save(self, iteration: int, make_state: Callable[[], Dict[str, Any]]) -> bool:
        """Save the checkpoint of an iteration unless it is there, delete old ones, and return whether it is there."""
        if self._folder is None or self._saved == iteration:
            return True
        path = self._folder / f"model_{iteration}.pt"
        try:
            write_checkpoint(path, make_state())
        except OSError as error:
            self._retry_at = iteration + self._pause
            self._pause = min(2 * self._pause, self._cfg.save_interval)
            self._tell(
                f"warning: {path.name} could not be saved ({error}); training goes on, next attempt after iteration "
                f"{self._retry_at}"
            )
            return False
        self._saved, self._retry_at, self._pause = iteration, None, 1
        try:
            prune_checkpoints(self._folder, self._cfg.keep_last, self._cfg.keep_every)
        except OSError as error:
            self._tell(f"warning: old checkpoints could not be deleted ({error})")
        return True
