"""TensorBoard event files, under the tags that rsl_rl's users know."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, Optional

from torch.utils.tensorboard import SummaryWriter

from rsl_rl.loggers.logger import Logger, Record

TAGS = {
    "value_loss": "Loss/value_function",
    "surrogate_loss": "Loss/surrogate",
    "entropy": "Loss/entropy",
    "kl": "Loss/kl",
    "learning_rate": "Loss/learning_rate",
    "noise_std": "Policy/mean_noise_std",
    "steps_per_s": "Perf/total_fps",
    "collect_s": "Perf/collection time",
    "learn_s": "Perf/learning_time",
    "mean_reward": "Train/mean_reward",
    "mean_episode_length": "Train/mean_episode_length",
}
"""Tag of each metric; the environment's own terms appear under Episode/."""


def tag_of(name: str) -> Optional[str]:
    """Return the tag of a metric, or None for those that only count."""
    return "Episode/" + name[len("episode/") :] if name.startswith("episode/") else TAGS.get(name)


class TensorBoardLogger(Logger):
    """Writes each record as scalars at its iteration."""

    def __init__(self, log_dir: Path, config: Dict):
        self._log_dir = log_dir
        self._writer: Optional[SummaryWriter] = None

    def start(self, first_iteration: int, last_iteration: int) -> None:
        self._writer = SummaryWriter(log_dir=str(self._log_dir), flush_secs=10, purge_step=first_iteration + 1)

    def write(self, record: Record) -> None:
        if self._writer is None:
            return
        for name, value in record.items():
            tag = tag_of(name)
            if tag is not None and value is not None:
                self._writer.add_scalar(tag, value, int(record["iteration"] or 0))

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
