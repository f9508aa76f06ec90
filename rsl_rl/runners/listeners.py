"""What follows an evaluation during training: save the best policy, and end a training that is good enough."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, Mapping, Optional, Tuple

from rsl_rl.loggers.logger import read_metrics
from rsl_rl.utils.checkpoints import CheckpointError, best_iteration, best_path, read_checkpoint


class BestCheckpoint:
    """Save the checkpoint with the lowest score as ``model_best.pt`` in a run folder.

    Of two evaluations with until_gate, the one with more metrics is better, because the other one ended with an earlier
    test, by which it misses the gate.

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
        self._rank = self._rank_on_disk(iteration)

    def _rank_on_disk(self, iteration: int) -> Optional[Tuple[int, float]]:
        """Return the rank of the file, if it is undamaged and not of a later iteration than the resumed one."""
        try:
            if best_iteration(self._path.parent) > iteration:
                return None
            return _rank(read_checkpoint(self._path)["infos"]["evaluation"])
        except (CheckpointError, LookupError, TypeError):  # it is missing or damaged
            return None

    def save_if_better(self, iteration: int, metrics: Mapping[str, float]) -> None:
        """Save the current policy if it is better than the best one; ``metrics["score"]`` is the largest ratio of a
        metric to its limit."""
        rank = _rank(metrics)
        if self._rank is not None and not rank < self._rank:
            return
        try:
            self._save(self._path, {"evaluation": dict(metrics)})
        except OSError as error:
            self._print_line(f"warning: {self._path.name} could not be saved ({error}); training continues")
            return
        self._rank = rank
        self._print_line(
            f"best policy: iteration {iteration}, score {metrics['score']:.3g} (1 or less passes the gate), saved as "
            f"{self._path.name}"
        )


def _rank(metrics: Mapping[str, float]) -> Tuple[int, float]:
    """Return the rank of an evaluation; the lowest is the best."""
    return -len(metrics), float(metrics["score"])


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
