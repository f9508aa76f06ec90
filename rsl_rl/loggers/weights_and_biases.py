"""Write to Weights & Biases; needs the extra ``wandb``."""

from __future__ import annotations

from pathlib import Path
from typing import Dict

import wandb  # the extra 'wandb'

from rsl_rl.loggers.logger import Logger, Record
from rsl_rl.loggers.tensorboard import tag_for


class WandbLogger(Logger):
    """Send each record to a run with the name of the run folder, in a project with the name of the experiment."""

    def __init__(self, log_dir: Path, config: Dict):
        self._settings = {"project": log_dir.parent.name, "name": log_dir.name, "dir": str(log_dir), "config": config}
        self._run = None

    def start(self, first_iteration: int, last_iteration: int) -> None:
        self._run = wandb.init(**self._settings)

    def write(self, record: Record) -> None:
        tagged = {tag_for(name): value for name, value in record.items() if value is not None}
        tagged.pop(None, None)
        if self._run is not None:
            self._run.log(tagged, step=int(record["iteration"] or 0))

    def close(self) -> None:
        if self._run is not None:
            self._run.finish()
            self._run = None
