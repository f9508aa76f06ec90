"""Where the numbers of a training go."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, Optional

from rsl_rl.utils.registry import Registry

Record = Dict[str, Optional[float]]
"""One iteration: a name and a number each, None where there is nothing to tell yet; the names are those of
metrics.jsonl."""


class Logger:
    """One sink of records. A subclass overrides what it needs; all it does must be cheap.

    ``write`` takes all of a record or, with an OSError, nothing of it; the record is then offered again later.
    """

    def start(self, first_iteration: int, last_iteration: int) -> None:
        """Prepare for the iterations from the first (exclusive) to the last."""

    def write(self, record: Record) -> None:
        """Take one iteration's numbers."""

    def note(self, text: str) -> None:
        """Tell the user of an event, in one line."""

    def sync(self) -> None:
        """Have files hold all that was written, whatever happens to the machine; called before a checkpoint."""

    def close(self) -> None:
        """Finish and release files; ``start`` may follow."""


LOGGERS = Registry(
    "logger",
    {
        "tensorboard": "rsl_rl.loggers.tensorboard:TensorBoardLogger",
        "wandb": "rsl_rl.loggers.weights_and_biases:WandbLogger",
        "none": "rsl_rl.loggers.logger:NoLogger",
    },
)
"""Classes built as ``cls(log_dir, config)`` with the run folder and the whole configuration as a dict."""


class NoLogger(Logger):
    """Takes everything and keeps nothing."""

    def __init__(self, log_dir: Path, config: Dict):
        pass
