"""The module in which rsl_rl 1 to 3 have these names."""

from rsl_rl.compat.policies import ActorCritic
from rsl_rl.modules.mlp import get_activation

__all__ = ["ActorCritic", "get_activation"]
