"""Settings of faster implementations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rsl_rl.config.base import Settings, require


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
