"""Everything that the runner needs to know."""

from __future__ import annotations

from dataclasses import dataclass, field

from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.config.base import require
from rsl_rl.config.policy import ActorCriticConfig


@dataclass(frozen=True)
class RunnerConfig:
    """How long to train, and what to leave behind."""

    num_steps_per_env: int = 24
    """Control steps of each environment between two updates."""
    max_iterations: int = 1000
    """Updates after which training ends."""
    save_interval: int = 50
    """Updates between two checkpoints."""
    experiment_name: str = "experiment"
    """Folder under logs/ that collects the runs."""
    run_name: str = ""
    """Ending of the run's own folder name."""
    logger: str = "tensorboard"
    """Where curves go, beside metrics.jsonl: tensorboard, wandb or none."""
    init_at_random_ep_len: bool = True
    """Have scripts/train.py start the first episodes at random ages, so that not all of them time out at once."""

    def __post_init__(self):
        for name in ("num_steps_per_env", "max_iterations", "save_interval"):
            require(getattr(self, name) >= 1, f"runner.{name}={getattr(self, name)}: give a whole number of at least 1")
        for name in ("experiment_name", "run_name"):
            value = getattr(self, name)
            require(
                "/" not in value and "\\" not in value and value not in (".", ".."),
                f"runner.{name}='{value}' must be one folder name, without slashes",
            )
        require(self.experiment_name != "", "runner.experiment_name is empty; give the runs a folder")


@dataclass(frozen=True)
class AccelerationConfig:
    """Ways to compute the same faster."""

    cuda_graphs: bool = False
    """On a GPU, launch each step of the policy and each gradient step as a whole. What is recorded is the algorithm as
    it is set in the first iteration: clip_param, entropy_coef, max_grad_norm, schedule, desired_kl and the like may not
    change later, learning_rate may."""
    bfloat16: bool = False
    """Run the networks in bfloat16 while they learn; losses, log-probabilities, KL and weights stay float32. For GPUs;
    CPUs are many times slower with it."""
    compile: bool = False
    """Compile the loss with torch.compile, which takes some seconds at the start and, on a CPU, a C++ compiler."""


@dataclass(frozen=True)
class LearnConfig:
    """Settings of a training, apart from its environment."""

    seed: int = 1
    """Of every random generator in a run of scripts/train.py; as a library, seed your own process."""
    policy: ActorCriticConfig = field(default_factory=ActorCriticConfig)
    algorithm: PPOConfig = field(default_factory=PPOConfig)
    runner: RunnerConfig = field(default_factory=RunnerConfig)
    acceleration: AccelerationConfig = field(default_factory=AccelerationConfig)
