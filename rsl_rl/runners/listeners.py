"""What follows an evaluation during training: save the best policy, and end a training that is good enough."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, Mapping, Optional

from rsl_rl.loggers.logger import read_metrics
from rsl_rl.utils.checkpoints import CheckpointError, best_iteration, best_path, read_checkpoint


class BestCheckpoint:
    """Save the checkpoint with the lowest score as ``model_best.pt`` in a run folder.

    ``save`` writes a checkpoint of the current state. Its infos contain the metrics under "evaluation", from which a
    run that is resumed at ``iteration`` reads the best score. An error of the disk prints a warning.
    """

    def __init__(
        self,
        folder: Path,
        iteration: int,
        save: Callable[[Path, Dict[str, Any]], None],
        print_line: Callable[[str], None],
    ):
        self._path, self._save, self._print_line = best_path(folder), save, print_line
        self._score = self._score_on_disk(iteration)

    def _score_on_disk(self, iteration: int) -> Optional[float]:
        """Return the score of the file, if it is undamaged and not of a later iteration than the resumed one."""
        try:
            if best_iteration(self._path.parent) > iteration:
                return None
            return float(read_checkpoint(self._path)["infos"]["evaluation"]["score"])
        except (CheckpointError, LookupError, TypeError):  # it is missing or damaged
            return None

    def save_if_better(self, iteration: int, metrics: Mapping[str, float]) -> None:
        """Save the current policy if ``metrics["score"]``, the largest ratio of a metric to its limit, is lower than
        that of the best policy."""
        score = metrics["score"]
        if self._score is not None and not score < self._score:
            return
        try:
            self._save(self._path, {"evaluation": dict(metrics)})
        except OSError as error:
            self._print_line(f"warning: {self._path.name} could not be saved ({error}); training continues")
            return
        self._score = score
        self._print_line(
            f"best policy: iteration {iteration}, score {score:.3g} (1 or less passes the gate), saved as "
            f"{self._path.name}"
        )


class GateStreak:
    """Call ``stop`` when ``length`` evaluations in a row had a score of at most ``limit``.

    A run that is resumed goes on counting: the evaluations up to ``iteration`` are read from the metrics in its folder.
    """

    def __init__(self, length: int, limit: float, stop: Callable[[], None], run: Path, iteration: int):
        self._length, self._limit, self._stop = length, limit, stop
        self._count = 0
        for record in read_metrics(run):
            if "evaluation/score" in record and record["iteration"] <= iteration:
                self._add(record["evaluation/score"])

    def _add(self, score: Optional[float]) -> None:
        """Count a score; None is one that is not finite."""
        self._count = self._count + 1 if score is not None and score <= self._limit else 0

    def note_evaluation(self, iteration: int, metrics: Mapping[str, float]) -> None:
        """Count the evaluation of an iteration by ``metrics["score"]``."""
        self._add(metrics["score"])
        if self._count >= self._length:
            self._stop()
