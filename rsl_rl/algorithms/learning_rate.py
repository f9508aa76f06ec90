"""Learning-rate schedules of PPO and GRPO, by the name in ``algorithm.schedule``.

"adaptive" changes the learning rate at each mini-batch, by the KL divergence. "linear" changes it before each update:
``learning_rate_at`` of the algorithm's config computes it from the share of the training that is done.
"""

from __future__ import annotations

from typing import Callable, Dict, Tuple

import torch
from torch import Tensor

from rsl_rl.config.algorithm import SurrogateConfig


def adapt_learning_rate(
    learning_rate: Tensor, kl: Tensor, desired_kl: float, bounds: Tuple[float, float] = (1e-5, 1e-2)
) -> Tensor:
    """Divide the learning rate by 1.5 where the KL exceeds twice the target, multiply it where the KL is below half of
    it.

    Scalars in, scalar out, on their device.
    """
    too_far = (kl > 2 * desired_kl).to(learning_rate.dtype)
    too_near = torch.logical_and(kl < desired_kl / 2, kl > 0).to(learning_rate.dtype)
    return (learning_rate * 1.5 ** (too_near - too_far)).clamp(*bounds)


def _adaptive(learning_rate: Tensor, kl: Tensor, cfg: SurrogateConfig) -> Tensor:
    assert cfg.desired_kl is not None  # SurrogateConfig has checked it
    return adapt_learning_rate(learning_rate, kl, cfg.desired_kl)


SCHEDULES: Dict[str, Callable[[Tensor, Tensor, SurrogateConfig], Tensor]] = {
    "adaptive": _adaptive,
    "fixed": lambda learning_rate, kl, cfg: learning_rate,
    "linear": lambda learning_rate, kl, cfg: learning_rate,  # see learning_rate_at
}
"""Learning rate after a mini-batch with a KL, by name of the schedule."""
