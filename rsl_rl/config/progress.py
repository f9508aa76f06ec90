"""What to look at while a policy trains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rsl_rl.config.base import Settings, require_counts, require_positive
from rsl_rl.config.task import MAX_ENVS


@dataclass(frozen=True)
class ProgressConfig(Settings):
    """What to look at while a policy trains; neither films nor evaluations change what is learned."""

    section: ClassVar[str] = "progress"

    video_interval: int = 0
    """Updates between two films of the policy, videos/model_<iteration>.mp4 in the run's folder; there is one after the
    last update too. 0: none."""
    video_seconds: float = 5.0
    """Length of a film [s]."""
    video_robots: int = 4
    """Robots in a film."""
    evaluate_interval: int = 0
    """Updates between two evaluations, under evaluation/ in metrics.jsonl; there is one after the last update too, and
    the best policy so far is kept as model_best.pt. 0: none."""
    evaluate_robots: int = 64
    """Robots that walk in an evaluation."""
    evaluate_seconds: float = 10.0
    """Time that each of them walks [s]."""

    def __post_init__(self):
        super().__post_init__()
        require_counts(self, 0, "video_interval", "evaluate_interval")
        require_counts(self, 1, "video_robots", high=100)
        require_counts(self, 1, "evaluate_robots", high=MAX_ENVS)
        require_positive(self, "video_seconds", "evaluate_seconds")
