"""Distributions over actions for PPO, in closed form and without validation at run time.

A distribution is described by named parameter tensors, such as ``action_mean`` and ``action_std``; a rollout stores
these. A family makes distributions from the outputs of an actor's last layer, or from stored parameters.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar, Dict, Mapping, Optional, Tuple

import torch
from torch import Tensor
from torch.nn import functional as F

from rsl_rl.config.policy import ActorCriticConfig, MirrorTuple
from rsl_rl.modules.symmetry import joined, mirror

_FLOOR_SHARPNESS = 2.0
"""Sharpness of the bend of ``smooth_floor``, in units of 1/floor."""

Parameters = Mapping[str, Tensor]
"""Parameters of a distribution by name, each [..., size]."""


class Distribution(ABC):
    """A distribution over actions [..., A] for each sample of a batch."""

    parameters: Dict[str, Tensor]
    """Parameters by name."""

    @property
    @abstractmethod
    def mode(self) -> Tensor:
        """Action [..., A] to take without exploration."""

    @abstractmethod
    def sample(self) -> Tensor:
        """Draw actions [..., A], without gradient."""

    @abstractmethod
    def log_prob(self, actions: Tensor) -> Tensor:
        """Return the log density [..., 1] of actions [..., A]."""

    @abstractmethod
    def entropy(self) -> Tensor:
        """Return the entropy [..., 1] in nats; leading dimensions that do not matter may be left out."""

    @abstractmethod
    def kl_from(self, old: Parameters) -> Tensor:
        """Return KL(old || self) [..., 1] in nats."""

    @property
    @abstractmethod
    def std(self) -> Tensor:
        """Standard deviation of the action, which can be broadcast to [..., A]."""

    def detach(self) -> Distribution:
        """Return the same distribution without its graph."""
        return type(self)(*map(Tensor.detach, self.parameters.values()))


class DiagonalGaussian(Distribution):
    """Independent normal distributions of A action components."""

    def __init__(self, action_mean: Tensor, action_std: Tensor):
        self.mean = action_mean  # [..., A]
        self._std = action_std  # [..., A], or [A] where it is the same for all samples
        self.parameters = {"action_mean": action_mean, "action_std": action_std}

    @property
    def mode(self) -> Tensor:
        return self.mean

    @property
    def std(self) -> Tensor:
        return self._std

    def sample(self) -> Tensor:
        return torch.addcmul(self.mean, torch.randn_like(self.mean), self._std).detach()

    def log_prob(self, actions: Tensor) -> Tensor:
        distance = actions - self.mean
        in_place = not torch.is_grad_enabled()
        squared = distance.div_(self._std).square_() if in_place else (distance / self._std).square()
        constant = 0.5 * squared.shape[-1] * math.log(2 * math.pi)
        normalizer = self._std.log().sum(dim=-1, keepdim=True) + constant
        return -0.5 * squared.sum(dim=-1, keepdim=True) - normalizer

    def entropy(self) -> Tensor:
        return (self._std.log() + 0.5 * math.log(2 * math.pi * math.e)).sum(dim=-1, keepdim=True)

    def kl_from(self, old: Parameters) -> Tensor:
        ratio = old["action_std"] / self._std
        shift = (old["action_mean"] - self.mean) / self._std
        squares = 0.5 * torch.addcmul(shift.square(), ratio, ratio).sub(1.0).sum(dim=-1, keepdim=True)
        return squares - ratio.log().sum(dim=-1, keepdim=True)


class Beta(Distribution):
    """Independent beta distributions of A action components on [low, high].

    ``alpha`` and ``beta`` are [..., A] and at least 1, so that every density has one peak.
    """

    low, high = -1.0, 1.0

    def __init__(self, alpha: Tensor, beta: Tensor):
        self.alpha, self.beta = alpha, beta
        self.parameters = {"alpha": alpha, "beta": beta}

    @property
    def mode(self) -> Tensor:
        """Mean of the distribution: unlike the peak, it exists for alpha = beta = 1 too."""
        return self.low + (self.high - self.low) * self.alpha / (self.alpha + self.beta)

    @property
    def std(self) -> Tensor:
        total = self.alpha + self.beta
        return (self.high - self.low) * (self.alpha * self.beta / (total.square() * (total + 1.0))).sqrt()

    def sample(self) -> Tensor:
        with torch.no_grad():
            unit = torch._sample_dirichlet(torch.stack((self.alpha, self.beta), dim=-1))[..., 0]
            return self.low + (self.high - self.low) * unit.clamp(1e-6, 1.0 - 1e-6)

    def log_prob(self, actions: Tensor) -> Tensor:
        unit = ((actions - self.low) / (self.high - self.low)).clamp(1e-6, 1.0 - 1e-6)
        density = (self.alpha - 1.0) * unit.log() + (self.beta - 1.0) * torch.log1p(-unit)
        return (density - _log_beta(self.alpha, self.beta) - math.log(self.high - self.low)).sum(dim=-1, keepdim=True)

    def entropy(self) -> Tensor:
        total = self.alpha + self.beta
        parts = (self.alpha - 1.0) * self.alpha.digamma() + (self.beta - 1.0) * self.beta.digamma()
        entropy = _log_beta(self.alpha, self.beta) - parts + (total - 2.0) * total.digamma()
        return (entropy + math.log(self.high - self.low)).sum(dim=-1, keepdim=True)

    def kl_from(self, old: Parameters) -> Tensor:
        a, b = old["alpha"], old["beta"]
        kl = _log_beta(self.alpha, self.beta) - _log_beta(a, b)
        kl = kl + (a - self.alpha) * a.digamma() + (b - self.beta) * b.digamma()
        return (kl + (self.alpha - a + self.beta - b) * (a + b).digamma()).sum(dim=-1, keepdim=True)


class Categorical(Distribution):
    """One choice of K; actions are indices [..., 1] int64."""

    def __init__(self, log_probs: Tensor):
        self.log_probs = log_probs  # [..., K], normalised
        self.parameters = {"log_probs": log_probs}

    @property
    def mode(self) -> Tensor:
        return self.log_probs.argmax(dim=-1, keepdim=True)

    @property
    def std(self) -> Tensor:
        """Standard deviation of the indicator of each choice [..., K]."""
        probs = self.log_probs.exp()
        return (probs * (1.0 - probs)).sqrt()

    def sample(self) -> Tensor:
        with torch.no_grad():  # the largest of log-probabilities with Gumbel noise is a draw
            uniform = torch.rand_like(self.log_probs).clamp(min=torch.finfo(self.log_probs.dtype).tiny)
            return (self.log_probs - (-uniform.log()).log()).argmax(dim=-1, keepdim=True)

    def log_prob(self, actions: Tensor) -> Tensor:
        return self.log_probs.gather(-1, actions.long())

    def entropy(self) -> Tensor:
        return -(self.log_probs.exp() * self.log_probs).sum(dim=-1, keepdim=True)

    def kl_from(self, old: Parameters) -> Tensor:
        before = old["log_probs"]
        return (before.exp() * (before - self.log_probs)).sum(dim=-1, keepdim=True)


def gaussian_kl(old_mean: Tensor, old_std: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Return KL(old || new) of diagonal Gaussians [..., A], summed over the components: [...] nats."""
    return DiagonalGaussian(mean, std).kl_from({"action_mean": old_mean, "action_std": old_std}).squeeze(-1)


def smooth_floor(x: Tensor, floor: float) -> Tensor:
    """Return x where it is well above ``floor``, bent smoothly so that the result always exceeds ``floor``.

    A clamp has no gradient below its bound, so a parameter below it would never change again.
    """
    return floor + F.softplus(x - floor, beta=_FLOOR_SHARPNESS / floor)


def _log_beta(a: Tensor, b: Tensor) -> Tensor:
    return a.lgamma() + b.lgamma() - (a + b).lgamma()


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
