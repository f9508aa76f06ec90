"""Settings of faster implementations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rsl_rl.config.base import Settings, require


@dataclass(frozen=True)
class AccelerationConfig(Settings):
    """Ways to compute the same faster."""

    section: ClassVar[str] = "acceleration"

    fused: bool = True
    """Use hand-written gradients, scans and an optimiser over flat tensors where they compute the same; False for plain
    PyTorch."""
    cuda_graphs: bool = False
    """On a GPU, launch each step of the policy and each gradient step as a whole. What is recorded is the algorithm as
    it is set in the first iteration: clip_param, entropy_coef, max_grad_norm, schedule, desired_kl and the like may not
    change later, learning_rate may."""
    bfloat16: bool = False
    """Run the networks in bfloat16 while they learn; losses, log-probabilities, KL and weights stay float32. For GPUs;
    CPUs are many times slower with it."""
    compile: bool = False
    """Compile the loss with torch.compile, which takes some seconds at the start and, on a CPU, a C++ compiler."""

    def __post_init__(self):
        super().__post_init__()
        require(
            self.fused or not (self.cuda_graphs or self.bfloat16 or self.compile),
            "acceleration.cuda_graphs, bfloat16 and compile need fused=True",
        )
