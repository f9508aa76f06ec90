"""Families of distributions: from an actor's outputs to a distribution over actions and its stored parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Dict, Optional, Tuple

import torch
from torch import Tensor
from torch.nn import functional as F

from rsl_rl.config.policy import ActorCriticConfig, MirrorTuple
from rsl_rl.modules.distributions import Beta, Categorical, DiagonalGaussian, Distribution, Parameters, smooth_floor
from rsl_rl.modules.mirror import joined, mirror


class DistributionFamily(ABC):
    """Makes distributions from the outputs of an actor's last layer."""

    action_dtype: ClassVar[torch.dtype] = torch.float32

    def __init__(self, num_actions: int):
        self.num_actions = num_actions

    @property
    def action_size(self) -> int:
        """Size A of an action."""
        return self.num_actions

    @property
    @abstractmethod
    def num_outputs(self) -> int:
        """Outputs of the actor's last layer."""

    @property
    @abstractmethod
    def parameter_shapes(self) -> Dict[str, Tuple[int, ...]]:
        """Shape of each stored parameter of one sample."""

    shared_parameters: Tuple[str, ...] = ()
    """Parameters that are the same for all samples of a rollout, and stored once."""

    def mirror_of_outputs(self, action: MirrorTuple) -> MirrorTuple:
        """Return the mirror image of the outputs for that of the action."""
        return action

    def mirror_actions(self, actions: Tensor, index: Tensor, sign: Tensor) -> Tensor:
        """Return the mirrored actions, for the mirror x[..., index] * sign."""
        return mirror(actions, index, sign)

    def mirror_parameters(self, parameters: Parameters, index: Tensor, sign: Tensor) -> Dict[str, Tensor]:
        """Return the parameters of the distribution over mirrored actions, for the mirror x[..., index] * sign."""
        raise NotImplementedError

    @abstractmethod
    def __call__(self, outputs: Tensor, std: Optional[Tensor]) -> Distribution:
        """Return the distribution for outputs [..., num_outputs]; ``std`` [A] is the learned one, or None."""

    @abstractmethod
    def of_parameters(self, parameters: Parameters) -> Distribution:
        """Return the distribution with these parameters."""

    @abstractmethod
    def mode(self, outputs: Tensor) -> Tensor:
        """Return the action without exploration for outputs [..., num_outputs]."""


class GaussianFamily(DistributionFamily):
    """Gaussians with one learned standard deviation per action, the same in every state."""

    shared_parameters = ("action_std",)

    @property
    def num_outputs(self) -> int:
        return self.num_actions

    @property
    def parameter_shapes(self) -> Dict[str, Tuple[int, ...]]:
        return {"action_mean": (self.num_actions,), "action_std": (self.num_actions,)}

    def __call__(self, outputs: Tensor, std: Optional[Tensor]) -> DiagonalGaussian:
        assert std is not None
        return DiagonalGaussian(outputs, std)

    def of_parameters(self, parameters: Parameters) -> DiagonalGaussian:
        return DiagonalGaussian(parameters["action_mean"], parameters["action_std"])

    def mirror_parameters(self, parameters: Parameters, index: Tensor, sign: Tensor) -> Dict[str, Tensor]:
        mean, std = parameters["action_mean"], parameters["action_std"]
        return {"action_mean": mean.index_select(-1, index) * sign, "action_std": std.index_select(-1, index)}

    def mode(self, outputs: Tensor) -> Tensor:
        return outputs


class StateDependentGaussianFamily(GaussianFamily):
    """Gaussians whose standard deviation is an output of the actor: [mean, log std or std], 2A numbers."""

    shared_parameters = ()

    def __init__(self, num_actions: int, init_std: float, min_std: float, log: bool):
        super().__init__(num_actions)
        self._init_std, self._min_std, self._log = init_std, min_std, log

    @property
    def num_outputs(self) -> int:
        return 2 * self.num_actions

    def __call__(self, outputs: Tensor, std: Optional[Tensor]) -> DiagonalGaussian:
        mean, raw = outputs.chunk(2, dim=-1)  # of an untrained network the second half is near zero
        raw = self._init_std * raw.exp() if self._log else self._init_std + raw
        return DiagonalGaussian(mean, smooth_floor(raw, self._min_std))

    def mirror_of_outputs(self, action: MirrorTuple) -> MirrorTuple:
        return joined(action, (action[0], (1.0,) * len(action[0])))

    def mode(self, outputs: Tensor) -> Tensor:
        return outputs[..., : self.num_actions]


class BetaFamily(DistributionFamily):
    """Beta distributions (Chou et al. 2017, https://proceedings.mlr.press/v70/chou17a.html): 2A outputs."""

    @property
    def num_outputs(self) -> int:
        return 2 * self.num_actions

    @property
    def parameter_shapes(self) -> Dict[str, Tuple[int, ...]]:
        return {"alpha": (self.num_actions,), "beta": (self.num_actions,)}

    def __call__(self, outputs: Tensor, std: Optional[Tensor]) -> Beta:
        alpha, beta = (1.0 + F.softplus(outputs)).chunk(2, dim=-1)
        return Beta(alpha, beta)

    def of_parameters(self, parameters: Parameters) -> Beta:
        return Beta(parameters["alpha"], parameters["beta"])

    def mirror_of_outputs(self, action: MirrorTuple) -> MirrorTuple:
        index, sign = action  # a change of sign swaps alpha and beta
        size = len(index)
        alpha = tuple(i if s > 0 else i + size for i, s in zip(index, sign))
        beta = tuple(i + size if s > 0 else i for i, s in zip(index, sign))
        return alpha + beta, (1.0,) * (2 * size)

    def mirror_parameters(self, parameters: Parameters, index: Tensor, sign: Tensor) -> Dict[str, Tensor]:
        alpha, beta = (parameters[name].index_select(-1, index) for name in ("alpha", "beta"))
        return {"alpha": torch.where(sign > 0, alpha, beta), "beta": torch.where(sign > 0, beta, alpha)}

    def mode(self, outputs: Tensor) -> Tensor:
        return self(outputs, None).mode


class CategoricalFamily(DistributionFamily):
    """One of ``num_actions`` choices; an action is its index [..., 1] int64."""

    action_dtype = torch.int64

    @property
    def action_size(self) -> int:
        return 1

    @property
    def num_outputs(self) -> int:
        return self.num_actions

    @property
    def parameter_shapes(self) -> Dict[str, Tuple[int, ...]]:
        return {"log_probs": (self.num_actions,)}

    def __call__(self, outputs: Tensor, std: Optional[Tensor]) -> Categorical:
        return Categorical(outputs.log_softmax(dim=-1))

    def of_parameters(self, parameters: Parameters) -> Categorical:
        return Categorical(parameters["log_probs"])

    def mirror_actions(self, actions: Tensor, index: Tensor, sign: Tensor) -> Tensor:
        return index[actions.long()].to(actions.dtype)

    def mirror_parameters(self, parameters: Parameters, index: Tensor, sign: Tensor) -> Dict[str, Tensor]:
        return {"log_probs": parameters["log_probs"].index_select(-1, index)}

    def mode(self, outputs: Tensor) -> Tensor:
        return outputs.argmax(dim=-1, keepdim=True)


def distribution_family(cfg: ActorCriticConfig, num_actions: int) -> DistributionFamily:
    """Return the family that a policy's config names."""
    if cfg.distribution == "beta":
        return BetaFamily(num_actions)
    if cfg.distribution == "categorical":
        return CategoricalFamily(num_actions)
    if cfg.state_dependent_std:
        log = cfg.noise_std_type == "log"
        return StateDependentGaussianFamily(num_actions, cfg.init_noise_std, cfg.min_noise_std, log)
    return GaussianFamily(num_actions)
