"""Networks."""

from typing import Any, List

from rsl_rl.modules.distributions import Beta, Categorical, DiagonalGaussian, Distribution, gaussian_kl
from rsl_rl.modules.mlp import get_activation, mlp
from rsl_rl.modules.model import Model
from rsl_rl.modules.normalizer import RunningNorm
from rsl_rl.utils.public_names import former_path, public_name

_OWN = {
    "ActorCritic": "rsl_rl.modules.policy:ActorCritic",
    "ActorCriticRecurrent": "rsl_rl.modules.policy:ActorCriticRecurrent",
    "Memory": "rsl_rl.modules.memory:Memory",
    "SymmetricActorCritic": "rsl_rl.modules.policy:SymmetricActorCritic",
    "SymmetricActorCriticRecurrent": "rsl_rl.modules.policy:SymmetricActorCriticRecurrent",
}

__all__ = [
    "ActorCritic",  # pyright: ignore[reportUnsupportedDunderAll]
    "ActorCriticRecurrent",  # pyright: ignore[reportUnsupportedDunderAll]
    "Beta",
    "Categorical",
    "DiagonalGaussian",
    "Distribution",
    "Memory",  # pyright: ignore[reportUnsupportedDunderAll]
    "Model",
    "RunningNorm",
    "SymmetricActorCritic",  # pyright: ignore[reportUnsupportedDunderAll]
    "SymmetricActorCriticRecurrent",  # pyright: ignore[reportUnsupportedDunderAll]
    "gaussian_kl",
    "get_activation",
    "mlp",
]

__path__.append(former_path(__name__))


def __getattr__(name: str) -> Any:
    return public_name(__name__, name, _OWN)


def __dir__() -> List[str]:
    return __all__
