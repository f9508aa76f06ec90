"""The best policy of a training, by the scores that somebody gives it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, Mapping, Optional

from rsl_rl.utils.checkpoints import CheckpointError, best_of, read_checkpoint


class BestCheckpoint:
    """Keeps ``model_best.pt`` in a run folder, the checkpoint with the lowest score; a disk that refuses it is told of
    and no more.

    ``save`` writes the checkpoint of this moment. Its infos say under "evaluation" how it was judged, which is how a
    run that goes on after ``iteration`` knows the best so far.
    """

    def __init__(
        self, folder: Path, iteration: int, save: Callable[[Path, Dict[str, Any]], None], tell: Callable[[str], None]
    ):
        self._path, self._save, self._tell = best_of(folder), save, tell
        self._score = self._score_on_disk(iteration)

    def _score_on_disk(self, iteration: int) -> Optional[float]:
        """Return the score of the file, if it is whole and of the iterations that the training goes on from."""
        try:
            state = read_checkpoint(self._path)
        except CheckpointError:
            return None
        infos = state.get("infos") or {}
        return infos.get("evaluation", {}).get("score") if state.get("iter", 0) <= iteration else None

    def offer(self, iteration: int, numbers: Mapping[str, float]) -> None:
        """Save the policy of this moment if its ``numbers["score"]``, the worst share of a limit of the task's gate, is
        lower than that of the best so far."""
        score = numbers["score"]
        if self._score is not None and not score < self._score:
            return
        try:
            self._save(self._path, {"evaluation": dict(numbers)})
        except OSError as error:
            self._tell(f"warning: {self._path.name} could not be saved ({error}); training goes on")
            return
        self._score = score
        self._tell(
            f"best so far: iteration {iteration}, score {score:.3g} (up to 1 passes the gate), saved as "
            f"{self._path.name}"
        )
