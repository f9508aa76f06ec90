"""The Gaussian of rsl_rl 5.5.1, to the last bit: torch's own, with a standard deviation that is clamped."""

from __future__ import annotations

import math
from typing import Any, Mapping, Optional

from torch import Tensor
from torch.distributions import Normal, kl_divergence

from rsl_rl.compat.output_distribution import OutputDistribution
from rsl_rl.modules.distributions import DiagonalGaussian, GaussianFamily, Parameters


class ExactGaussian(DiagonalGaussian):
    """Independent normal distributions of A action components, computed by ``torch.distributions``."""

    def __init__(self, action_mean: Tensor, action_std: Tensor):
        super().__init__(action_mean, action_std)
        # one object for all terms of a loss: the order in which their gradients are added depends on it
        self.normal = Normal(action_mean, action_std, validate_args=False)

    def sample(self) -> Tensor:
        return self.normal.sample()

    def log_prob(self, actions: Tensor) -> Tensor:
        return self.normal.log_prob(actions).sum(dim=-1, keepdim=True)

    def entropy(self) -> Tensor:
        return self.normal.entropy().sum(dim=-1, keepdim=True)

    def kl_from(self, old: Parameters) -> Tensor:
        before = Normal(old["action_mean"], old["action_std"], validate_args=False)
        return kl_divergence(before, self.normal).sum(dim=-1, keepdim=True)


class ExactGaussianFamily(GaussianFamily):
    """Makes :class:`ExactGaussian` of an actor's outputs."""

    def __call__(self, outputs: Tensor, std: Optional[Tensor]) -> ExactGaussian:
        assert std is not None
        return ExactGaussian(outputs, std)

    def of_parameters(self, parameters: Parameters) -> ExactGaussian:
        return ExactGaussian(parameters["action_mean"], parameters["action_std"])


class ExactOutput(OutputDistribution):
    """An :class:`OutputDistribution` with the standard deviation clamped to ``std_range``."""

    def __init__(self, num_actions: int, given: Mapping[str, Any]):
        super().__init__(num_actions, given)
        if not self.family.shared_parameters:
            raise ValueError(
                "compat='exact' reproduces GaussianDistribution alone; take it, or leave out compat for "
                f"{given.get('class_name')}"
            )
        self.family = ExactGaussianFamily(num_actions)
        low, high = given.get("std_range") or (1e-6, 1e6)
        self.bounds = max(low, 1e-6), high

    def noise_std(self) -> Tensor:
        low, high = self.bounds
        if self.is_log:
            return self.log_std_param.clamp(math.log(low), math.log(high)).exp()
        return self.std_param.clamp(low, high)


def output_distribution(num_actions: int, given: Mapping[str, Any]) -> OutputDistribution:
    """Return the distribution of a network; ``exact`` among its settings asks for :class:`ExactOutput`."""
    return (ExactOutput if given.get("exact") else OutputDistribution)(num_actions, given)
