"""Extensions of an algorithm: additional rewards, samples, losses and networks."""

from typing import Any

from rsl_rl.algorithms.extension import Extension
from rsl_rl.extensions.adversarial_motion_prior import AdversarialMotionPrior
from rsl_rl.extensions.random_network_distillation import RandomNetworkDistillation
from rsl_rl.extensions.reference_kl import ReferenceKL
from rsl_rl.extensions.symmetry import Symmetry
from rsl_rl.utils.public_names import former_path, public_name

__all__ = ["AdversarialMotionPrior", "Extension", "RandomNetworkDistillation", "ReferenceKL", "Symmetry"]


__path__.append(former_path(__name__))


def __getattr__(name: str) -> Any:
    return public_name(__name__, name)
