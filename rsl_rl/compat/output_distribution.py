"""The distribution over the outputs of a network of rsl_rl 4 or 5."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional

import torch
from torch import Tensor, nn

from rsl_rl.config.policy import ActorCriticConfig
from rsl_rl.modules.distributions import Distribution, distribution_family, smooth_floor

_NAMES = {
    "GaussianDistribution": "gaussian",
    "HeteroscedasticGaussianDistribution": "gaussian",
    "BetaDistribution": "beta",
}
_LEAST_STD = 0.01


def std_settings(given: Mapping[str, Any]) -> Dict[str, Any]:
    """Return our settings of the distribution for a ``distribution_cfg``, or the settings of version 4."""
    name = given.get("class_name", "GaussianDistribution")
    name = (name if isinstance(name, str) else name.__name__).replace(":", ".").rpartition(".")[2]
    if name not in _NAMES:
        raise ValueError(f"distribution_cfg.class_name={name} is not supported; allowed: {', '.join(_NAMES)}")
    std = given.get("init_std", given.get("init_noise_std", 1.0))
    least = (given.get("std_range") or (min(_LEAST_STD, 0.5 * std),))[0]
    return {
        "distribution": _NAMES[name],
        "init_noise_std": std,
        "noise_std_type": given.get("std_type", given.get("noise_std_type", "scalar")),
        "state_dependent_std": name.startswith("Hetero") or bool(given.get("state_dependent_std", False)),
        "min_noise_std": max(least, 1e-6),
    }


class OutputDistribution(nn.Module):
    """Holds the standard deviation, under the name of rsl_rl 5, and the latest distribution."""

    latest: Optional[Distribution] = None
    std_param: nn.Parameter
    log_std_param: nn.Parameter

    def __init__(self, num_actions: int, given: Mapping[str, Any]):
        super().__init__()
        self.cfg = ActorCriticConfig(**std_settings(given))
        self.family = distribution_family(self.cfg, num_actions)
        self.is_log = self.cfg.noise_std_type == "log"
        if self.family.shared_parameters:
            std = torch.full((num_actions,), float(self.cfg.init_noise_std))
            name, value = ("log_std_param", std.log()) if self.is_log else ("std_param", std)
            self.register_parameter(name, nn.Parameter(value))

    def noise_std(self) -> Optional[Tensor]:
        """Return the standard deviation [A]; None where it depends on the state."""
        if not self.family.shared_parameters:
            return None
        raw = self.log_std_param.exp() if self.is_log else self.std_param
        return smooth_floor(raw, self.cfg.min_noise_std)

    def update(self, outputs: Tensor) -> None:
        """Compute the distribution for the outputs of a network."""
        self.latest = self.family(outputs, self.noise_std())

    def sample(self) -> Tensor:
        """Draw actions from the latest distribution."""
        assert self.latest is not None
        return self.latest.sample()

    def deterministic_output(self, outputs: Tensor) -> Tensor:
        """Return the action without exploration."""
        return self.family.mode(outputs)
