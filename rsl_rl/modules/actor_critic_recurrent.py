"""The module in which rsl_rl 1 to 3 have these classes."""

from rsl_rl.modules.memory import Memory
from rsl_rl.modules.mlp import get_activation
from rsl_rl.modules.policies import ActorCriticRecurrent

__all__ = ["ActorCriticRecurrent", "Memory", "get_activation"]
