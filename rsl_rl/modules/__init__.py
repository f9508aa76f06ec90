"""Networks."""

from rsl_rl.modules.actor_critic import ActorCritic
from rsl_rl.modules.actor_critic_recurrent import ActorCriticRecurrent
from rsl_rl.modules.gaussian import DiagonalGaussian, gaussian_kl
from rsl_rl.modules.memory import Memory
from rsl_rl.modules.mlp import get_activation, mlp
from rsl_rl.modules.normalizer import RunningNorm

__all__ = [
    "ActorCritic",
    "ActorCriticRecurrent",
    "DiagonalGaussian",
    "Memory",
    "RunningNorm",
    "gaussian_kl",
    "get_activation",
    "mlp",
]
