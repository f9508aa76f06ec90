"""The module in which rsl_rl 5 has these classes."""

from rsl_rl.compat.distributions import (
    BetaDistribution,
    Distribution,
    GaussianDistribution,
    HeteroscedasticGaussianDistribution,
)

__all__ = ["BetaDistribution", "Distribution", "GaussianDistribution", "HeteroscedasticGaussianDistribution"]
