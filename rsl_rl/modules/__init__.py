"""Networks."""

from typing import Any

from rsl_rl.modules.actor_critic import ActorCritic
from rsl_rl.modules.distributions import Beta, Categorical, DiagonalGaussian, Distribution, gaussian_kl
from rsl_rl.modules.memory import Memory
from rsl_rl.modules.mlp import get_activation, mlp
from rsl_rl.modules.model import Model
from rsl_rl.modules.normalizer import RunningNorm
from rsl_rl.modules.policies import ActorCriticRecurrent, SymmetricActorCritic, SymmetricActorCriticRecurrent
from rsl_rl.utils.former_names import former_name

__all__ = [
    "ActorCritic",
    "ActorCriticRecurrent",
    "Beta",
    "Categorical",
    "DiagonalGaussian",
    "Distribution",
    "Memory",
    "Model",
    "RunningNorm",
    "SymmetricActorCritic",
    "SymmetricActorCriticRecurrent",
    "gaussian_kl",
    "get_activation",
    "mlp",
]


def __getattr__(name: str) -> Any:
    return former_name(__name__, name)
