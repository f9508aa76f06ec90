"""Extensions of an algorithm: additional rewards, samples, losses and networks."""

from rsl_rl.algorithms.extension import Extension
from rsl_rl.extensions.random_network_distillation import RandomNetworkDistillation
from rsl_rl.extensions.symmetry import Symmetry

__all__ = ["Extension", "RandomNetworkDistillation", "Symmetry"]
