"""Interface of loggers. To add one, see docs/extending.md."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, Optional

from rsl_rl.utils.registry import Registry

Record = Dict[str, Optional[float]]
"""Metrics of one iteration by their names in metrics.jsonl; None for a metric without a value."""


class Logger:
    """Write records. A subclass overrides the methods that it needs; they must be fast.

    ``write`` writes a record completely, or raises an OSError and writes nothing; the record is then written later.
    """

    def start(self, first_iteration: int, last_iteration: int) -> None:
        """Prepare for the iterations from the first (exclusive) to the last."""

    def write(self, record: Record) -> None:
        """Write the metrics of one iteration."""

    def note(self, text: str) -> None:
        """Show one line to the user."""

    def sync(self) -> None:
        """Flush files to the disk; called before a checkpoint is written."""

    def close(self) -> None:
        """Close files; ``start`` may follow."""


LOGGERS = Registry(
    "logger",
    {
        "tensorboard": "rsl_rl.loggers.tensorboard:TensorBoardLogger",
        "wandb": "rsl_rl.loggers.weights_and_biases:WandbLogger",
        "none": "rsl_rl.loggers.logger:NoLogger",
    },
)
"""Logger classes, constructed as ``cls(log_dir, config)`` with the run folder and the complete config as a dict."""


class NoLogger(Logger):
    """Write nothing."""

    def __init__(self, log_dir: Path, config: Dict):
        pass
