"""Networks."""

from rsl_rl.modules.actor_critic import ActorCritic
from rsl_rl.modules.cnn import CNN
from rsl_rl.modules.distributions import Beta, Categorical, DiagonalGaussian, Distribution, gaussian_kl
from rsl_rl.modules.memory import Memory
from rsl_rl.modules.mlp import MLP, get_activation, mlp
from rsl_rl.modules.model import Model
from rsl_rl.modules.normalizer import RunningNorm
from rsl_rl.modules.policies import ActorCriticRecurrent, SymmetricActorCritic, SymmetricActorCriticRecurrent

__all__ = [
    "CNN",
    "MLP",
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
