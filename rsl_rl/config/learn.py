"""Everything that the runner needs to know."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import ClassVar, Tuple

from rsl_rl.config.acceleration import AccelerationConfig
from rsl_rl.config.algorithm import AlgorithmConfig, PPOConfig
from rsl_rl.config.base import Settings, require, require_counts, require_field, require_positive
from rsl_rl.config.distillation import DistillationConfig
from rsl_rl.config.extensions import ExtensionConfig
from rsl_rl.config.policy import ActorCriticConfig

__all__ = ["DistillationConfig", "LearnConfig", "PPOConfig", "RunnerConfig", "SafetyConfig"]


@dataclass(frozen=True)
class RunnerConfig(Settings):
    """How long to train, and what to leave behind."""

    section: ClassVar[str] = "runner"

    num_steps_per_env: int = 24
    """Control steps of each environment between two updates."""
    max_iterations: int = 1000
    """Updates after which training ends."""
    save_interval: int = 50
    """Updates between two checkpoints."""
    keep_last: int = 0
    """Newest checkpoints of the run that are kept, older ones are deleted; 0: all."""
    keep_every: int = 0
    """Of the older checkpoints, those of every so many updates are kept too; 0: none. Counts where keep_last does."""
    max_time: float = 0.0
    """Time after which learn() saves and returns [s], with the length of the longest iteration to spare; 0: none."""
    experiment_name: str = "experiment"
    """Folder under logs/ that collects the runs."""
    run_name: str = ""
    """Ending of the run's own folder name."""
    logger: str = "tensorboard"
    """Where curves go, beside metrics.jsonl: tensorboard, wandb or none."""
    init_at_random_ep_len: bool = True
    """Have scripts/train.py start the first episodes at random ages, so that not all of them time out at once."""

    def __post_init__(self):
        super().__post_init__()
        require_counts(self, 1, "max_iterations", "save_interval")
        require_counts(self, 1, "num_steps_per_env", high=1_000_000)
        require_counts(self, 0, "keep_last", "keep_every")
        picks = self.keep_every == 0 or self.keep_last > 0
        require_field(self, "keep_every", picks, " picks among what keep_last deletes; set keep_last too")
        require_field(self, "max_time", self.max_time >= 0, ": give a time in seconds, or 0 for none")
        for name in ("experiment_name", "run_name"):
            fits = re.fullmatch(r"(?!\.\.?$)[^/\\]{0,100}", getattr(self, name)) and getattr(self, name).isprintable()
            require_field(
                self, name, bool(fits), " must be one folder name, without slashes, of at most 100 characters"
            )
        require(self.experiment_name != "", "runner.experiment_name is empty; give the runs a folder")


@dataclass(frozen=True)
class SafetyConfig(Settings):
    """What counts as broken, and when to give up."""

    section: ClassVar[str] = "safety"

    max_observation: float = 1e6
    """Size of an observation beyond which, as where it is not finite, an environment counts as broken."""
    max_reward: float = 1e6
    """Size of a reward beyond which, as where it is not finite, an environment counts as broken."""
    max_skipped_steps: int = 20
    """Gradient steps in a row that may be skipped, for a loss or gradient that is not finite or for want of samples;
    then the learner goes back to its last good state."""
    rollback_factor: float = 0.5
    """Factor on the learning rate when the learner goes back; an adaptive schedule goes on from there."""
    max_rollbacks: int = 3
    """Times that the learner may go back; at the next one the training fails."""

    def __post_init__(self):
        super().__post_init__()
        require_positive(self, "max_observation", "max_reward")
        require_counts(self, 1, "max_skipped_steps")
        require_counts(self, 0, "max_rollbacks")
        require_field(self, "rollback_factor", 0 < self.rollback_factor <= 1, " must lie in (0, 1]")


@dataclass(frozen=True)
class LearnConfig(Settings):
    """Settings of a training, apart from its environment."""

    seed: int = 1
    """Of every random generator in a run of scripts/train.py; as a library, seed your own process."""
    deterministic: bool = False
    """Have two runs of scripts/train.py on one machine give the same bits, at some cost in speed on a GPU."""
    policy: ActorCriticConfig = field(default_factory=ActorCriticConfig)
    algorithm: AlgorithmConfig = field(default_factory=PPOConfig)
    extensions: Tuple[ExtensionConfig, ...] = ()
    """What joins the algorithm, in this order: RNDConfig, SymmetryConfig, or a config of your own."""
    runner: RunnerConfig = field(default_factory=RunnerConfig)
    acceleration: AccelerationConfig = field(default_factory=AccelerationConfig)
    safety: SafetyConfig = field(default_factory=SafetyConfig)

    def __post_init__(self):
        super().__post_init__()
        require_counts(self, 0, "seed", high=2**32 - 1)
