"""Settings of a training, apart from its environment."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import ClassVar, Tuple

from rsl_rl.config.algorithm import AlgorithmConfig, DistillationConfig, GRPOConfig, PPOConfig
from rsl_rl.config.base import Settings, require, require_counts, require_field, require_positive
from rsl_rl.config.extensions import ExtensionConfig
from rsl_rl.config.policy import ActorCriticConfig

__all__ = [
    "AccelerationConfig",
    "DistillationConfig",
    "GRPOConfig",
    "LearnConfig",
    "PPOConfig",
    "RunnerConfig",
    "SafetyConfig",
]


@dataclass(frozen=True)
class AccelerationConfig(Settings):
    """Faster implementations with the same results."""

    section: ClassVar[str] = "acceleration"

    fused: bool = True
    """Use closed-form gradients, recurrent scans and an optimiser over flat tensors; False for plain PyTorch."""
    cuda_graphs: bool = False
    """On a GPU, launch each step of the policy and each gradient step as one CUDA graph. Settings such as clip_param,
    entropy_coef, max_grad_norm, schedule and desired_kl cannot change after the first iteration; learning_rate can."""
    bfloat16: bool = False
    """Compute the networks in bfloat16 during the update; losses, log-probabilities, KL and weights are float32. For
    GPUs; it is slow on CPUs."""
    compile: bool = False
    """Compile the loss with torch.compile, which needs some seconds at the start and, on a CPU, a C++ compiler."""

    def __post_init__(self):
        super().__post_init__()
        require(
            self.fused or not (self.cuda_graphs or self.bfloat16 or self.compile),
            "acceleration.cuda_graphs, bfloat16 and compile need fused=True",
        )


@dataclass(frozen=True)
class RunnerConfig(Settings):
    """Length of the training, and files of the run."""

    section: ClassVar[str] = "runner"

    num_steps_per_env: int = 24
    """Control steps of each environment between two updates."""
    max_iterations: int = 1000
    """Updates after which training ends."""
    save_interval: int = 50
    """Updates between two checkpoints."""
    keep_last: int = 0
    """Number of newest checkpoints that are not deleted; 0: all."""
    keep_every: int = 0
    """With keep_last: do not delete checkpoints of iterations that are divisible by this number; 0: none."""
    max_time: float = 0.0
    """Time limit of learn() [s]; it saves and returns before an iteration could exceed the limit. 0: none."""
    experiment_name: str = "experiment"
    """Folder of the runs under logs/."""
    run_name: str = ""
    """Suffix of the name of the run's folder."""
    logger: str = "tensorboard"
    """Logger in addition to metrics.jsonl: tensorboard, wandb, none, or "package.module:Class"."""
    init_at_random_ep_len: bool = True
    """Let rsl-rl train start the first episodes with random lengths, so that they do not time out together."""

    def __post_init__(self):
        super().__post_init__()
        require_counts(self, 1, "max_iterations", "save_interval")
        require_counts(self, 1, "num_steps_per_env", high=1_000_000)
        require_counts(self, 0, "keep_last", "keep_every")
        picks = self.keep_every == 0 or self.keep_last > 0
        require_field(self, "keep_every", picks, " has no effect without keep_last; set keep_last too")
        require_field(self, "max_time", self.max_time >= 0, ": give a time in seconds, or 0 for none")
        for name in ("experiment_name", "run_name"):
            fits = re.fullmatch(r"(?!\.\.?$)[^/\\]{0,100}", getattr(self, name)) and getattr(self, name).isprintable()
            require_field(
                self, name, bool(fits), " must be one folder name, without slashes, of at most 100 characters"
            )
        require(self.experiment_name != "", "runner.experiment_name is empty; give a folder name")


@dataclass(frozen=True)
class SafetyConfig(Settings):
    """Limits for broken environments and failed gradient steps."""

    section: ClassVar[str] = "safety"

    max_observation: float = 1e6
    """Limit of absolute observations; an environment with larger ones, or not finite ones, is broken."""
    max_reward: float = 1e6
    """Limit of the absolute reward; an environment with a larger one, or not finite one, is broken."""
    max_skipped_steps: int = 20
    """Number of consecutive skipped gradient steps (the loss or a gradient is not finite, or all samples are masked)
    after which the learner returns to its last good state."""
    rollback_factor: float = 0.5
    """Factor of the learning rate at such a rollback. An adaptive schedule continues from there, a linear one does not
    keep it."""
    max_rollbacks: int = 3
    """Largest number of rollbacks; at the next one the training fails."""

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
    """Seed of all random generators in rsl-rl train; other programs seed their process themselves. With torchrun
    each rank derives its own from it."""
    deterministic: bool = False
    """Let two runs of rsl-rl train on one machine give the same bits; slower on a GPU. Physics of mujoco_warp on a GPU
    has no fixed order of additions and is not covered."""
    policy: ActorCriticConfig = field(default_factory=ActorCriticConfig)
    algorithm: AlgorithmConfig = field(default_factory=PPOConfig)
    extensions: Tuple[ExtensionConfig, ...] = ()
    """Extensions of the algorithm, in this order: RNDConfig, SymmetryConfig, or other configs."""
    runner: RunnerConfig = field(default_factory=RunnerConfig)
    acceleration: AccelerationConfig = field(default_factory=AccelerationConfig)
    safety: SafetyConfig = field(default_factory=SafetyConfig)

    def __post_init__(self):
        super().__post_init__()
        require_counts(self, 0, "seed", high=2**32 - 1)
