"""The module in which rsl_rl 1 to 3 have these classes."""

from rsl_rl.compat.policies import ActorCriticRecurrent, Memory
from rsl_rl.modules.mlp import get_activation

__all__ = ["ActorCriticRecurrent", "Memory", "get_activation"]
