"""Distributions with the constructors and calls of rsl_rl 5, to construct and to derive others from.

Outputs of a network are [..., A], or [..., 2, A] where they describe two parameters; log-probabilities, entropies and
divergences are summed over the A components, [...].
"""

from __future__ import annotations

import math
from typing import Any, Dict, List, Optional, Sequence, Tuple, Type, Union

import torch
from torch import Tensor, nn
from torch.distributions import Normal
from torch.nn import functional as F

from rsl_rl.modules import distributions as native
from rsl_rl.modules.distributions import Beta, BetaFamily, DiagonalGaussian, DistributionFamily, GaussianFamily

_STD_RANGE = (1e-6, 1e6)


class Distribution(nn.Module):
    """What a client derives a distribution of its own from.

    A subclass defines ``update(outputs)``, ``sample()``, ``deterministic_output(outputs)``, ``log_prob(actions)``,
    ``kl_divergence(old_params, new_params)`` and the properties ``mean``, ``std``, ``entropy`` and ``params``; for
    exports also ``as_deterministic_output_module()``.
    """

    def __init__(self, output_dim: int):
        super().__init__()
        self.output_dim = output_dim

    @property
    def input_dim(self) -> Union[int, List[int]]:
        """Shape of the outputs of the network."""
        return self.output_dim

    def init_mlp_weights(self, mlp: nn.Module) -> None:
        """Do nothing; a subclass may change the weights of the network's head."""

    def update(self, mlp_output: Tensor) -> None:
        """Compute the distribution for the outputs of a network."""
        raise NotImplementedError(f"{type(self).__name__} defines no update(mlp_output)")

    def sample(self) -> Tensor:
        """Draw actions [..., A] from the latest distribution."""
        raise NotImplementedError(f"{type(self).__name__} defines no sample()")

    def deterministic_output(self, mlp_output: Tensor) -> Tensor:
        """Return the action [..., A] without exploration."""
        raise NotImplementedError(f"{type(self).__name__} defines no deterministic_output(mlp_output)")

    @property
    def as_native(self) -> native.Distribution:
        """The latest distribution, with the calls of this version."""
        return ModuleDistribution(self)

    @property
    def family(self) -> DistributionFamily:
        """What makes distributions of the outputs of a network, with the calls of this version."""
        return ModuleFamily(self)

    def noise_std(self) -> Optional[Tensor]:
        """Return the standard deviation [A] that is a parameter; None where the outputs or a client determine it."""
        return None

    def free_graph(self) -> None:
        """Keep the latest distribution without its gradient."""


class _OfFamily(Distribution):
    """A distribution of one of this version's families; a client's subclass is called as it is."""

    latest: Optional[native.Distribution] = None
    _family: DistributionFamily

    @property
    def is_ours(self) -> bool:
        """Whether the class is this package's."""
        return type(self).__module__.partition(".")[0] == "rsl_rl"

    @property
    def family(self) -> DistributionFamily:
        return self._family if self.is_ours else ModuleFamily(self)

    @property
    def as_native(self) -> native.Distribution:
        return self._now if self.is_ours else ModuleDistribution(self)

    @property
    def _now(self) -> native.Distribution:
        if self.latest is None:  # an AttributeError, because torch.jit reads every property
            raise AttributeError(f"{type(self).__name__} has no outputs yet; call update() first")
        return self.latest

    def update(self, mlp_output: Tensor) -> None:
        self.latest = self._family(self._flat(mlp_output), self._std())

    def _std(self) -> Optional[Tensor]:
        """Return the standard deviation [A] that is a parameter; None where the outputs determine it."""
        return None

    def noise_std(self) -> Optional[Tensor]:
        return self._std() if self.is_ours else None

    def free_graph(self) -> None:
        if self.latest is not None:
            self.latest = self.latest.detach()

    def sample(self) -> Tensor:
        return self._now.sample()

    def deterministic_output(self, mlp_output: Tensor) -> Tensor:
        return self._family.mode(self._flat(mlp_output))

    def as_deterministic_output_module(self) -> nn.Module:
        """Return a module that computes :meth:`deterministic_output`."""
        return nn.Identity()

    mean = property(lambda self: self._now.mode)
    std = property(lambda self: self._now.std.expand_as(self.mean))

    @property
    def entropy(self) -> Tensor:
        """Entropy [...] in nats."""
        return self._now.entropy().squeeze(-1).expand(self.mean.shape[:-1])

    @property
    def params(self) -> Tuple[Tensor, ...]:
        """Parameters of the latest distribution, each [..., A]."""
        return tuple(parameter.expand_as(self.mean) for parameter in self._now.parameters.values())

    def log_prob(self, outputs: Tensor) -> Tensor:
        """Return the log density [...] of actions [..., A]."""
        return self._now.log_prob(outputs).squeeze(-1)

    def kl_divergence(self, old_params: Tuple[Tensor, ...], new_params: Tuple[Tensor, ...]) -> Tensor:
        """Return KL(old || new) [...] in nats of distributions with these ``params``."""
        old, new = (dict(zip(self._family.parameter_shapes, params)) for params in (old_params, new_params))
        return self._family.of_parameters(new).kl_from(old).squeeze(-1)

    def _flat(self, outputs: Tensor) -> Tensor:
        """Return outputs as this version's families read them, [..., outputs]."""
        return outputs if isinstance(self.input_dim, int) else outputs.flatten(-2)


class GaussianDistribution(_OfFamily):
    """Independent normal distributions whose standard deviation, clamped to ``std_range``, is a parameter."""

    std_param: nn.Parameter
    log_std_param: nn.Parameter

    def __init__(
        self,
        output_dim: int,
        init_std: float = 1.0,
        std_range: Sequence[float] = _STD_RANGE,
        std_type: str = "scalar",
        learn_std: bool = True,
    ):
        super().__init__(output_dim)
        self._set_std(init_std, std_range, std_type)
        self._family = GaussianFamily(output_dim)
        std = torch.full((output_dim,), float(init_std))
        name, value = ("log_std_param", std.log()) if std_type == "log" else ("std_param", std)
        self.register_parameter(name, nn.Parameter(value, requires_grad=learn_std))

    def _set_std(self, init_std: float, std_range: Sequence[float], std_type: str) -> None:
        if std_type not in ("scalar", "log"):
            raise ValueError(f"unknown std_type '{std_type}'; allowed: scalar, log")
        self.init_std, self.std_type = init_std, std_type
        self.std_range = [max(std_range[0], _STD_RANGE[0]), std_range[1]]

    def _std(self) -> Optional[Tensor]:
        if self.std_type == "log":
            return self.log_std_param.clamp(*map(math.log, self.std_range)).exp()
        return self.std_param.clamp(*self.std_range)

    @property
    def _distribution(self) -> Optional[Normal]:
        """The latest distribution as one of torch, under the name by which a client's ``update`` sets it."""
        return None if self.latest is None else Normal(self.mean, self.std, validate_args=False)

    @_distribution.setter
    def _distribution(self, value: Optional[Normal]) -> None:
        self.latest = None if value is None else DiagonalGaussian(value.mean, value.stddev)


class HeteroscedasticGaussianDistribution(GaussianDistribution):
    """Independent normal distributions with outputs [..., 2, A]: the mean, and the standard deviation or its
    logarithm."""

    def __init__(
        self,
        output_dim: int,
        init_std: float = 1.0,
        std_range: Sequence[float] = _STD_RANGE,
        std_type: str = "scalar",
    ):
        Distribution.__init__(self, output_dim)
        self._set_std(init_std, std_range, std_type)
        self._family = _TwoOutputs(output_dim, self.std_range, std_type == "log")

    @property
    def input_dim(self) -> List[int]:
        return [2, self.output_dim]

    def _std(self) -> Optional[Tensor]:
        return None

    @torch.no_grad()
    def init_mlp_weights(self, mlp: Any) -> None:
        """Make the head begin with ``init_std`` in every state."""
        head = mlp[-2]
        head.weight[self.output_dim :].zero_()
        head.bias[self.output_dim :].fill_(math.log(self.init_std) if self.std_type == "log" else self.init_std)

    def as_deterministic_output_module(self) -> nn.Module:
        return FirstOfTwo()


class _TwoOutputs(GaussianFamily):
    """Gaussians of a mean and a standard deviation, or its logarithm, [..., 2A]."""

    shared_parameters = ()

    def __init__(self, num_actions: int, std_range: Sequence[float], log: bool):
        super().__init__(num_actions)
        self._log, self._range = log, [math.log(bound) if log else bound for bound in std_range]

    @property
    def num_outputs(self) -> int:
        return 2 * self.num_actions

    def __call__(self, outputs: Tensor, std: Optional[Tensor]) -> DiagonalGaussian:
        mean, raw = outputs.chunk(2, dim=-1)
        raw = raw.clamp(*self._range)
        return DiagonalGaussian(mean, raw.exp() if self._log else raw)

    def mode(self, outputs: Tensor) -> Tensor:
        return outputs[..., : self.num_actions]


class BetaDistribution(_OfFamily):
    """Independent beta distributions on ``action_range`` with outputs [..., 2, A]."""

    def __init__(self, output_dim: int, action_range: Sequence[float] = (Beta.low, Beta.high)):
        super().__init__(output_dim)
        self.action_range = tuple(action_range)
        self._family = _RangedBetaFamily(output_dim, self.action_range)

    @property
    def input_dim(self) -> List[int]:
        return [2, self.output_dim]

    def as_deterministic_output_module(self) -> nn.Module:
        return BetaMeanOfTwo(*self.action_range)

    _alpha = property(lambda self: self.params[0])
    _beta = property(lambda self: self.params[1])


class _RangedBetaFamily(BetaFamily):
    """Beta distributions on a range."""

    def __init__(self, num_actions: int, action_range: Tuple[float, ...]):
        super().__init__(num_actions)
        low, high = action_range
        self._kind: Type[Beta] = type("RangedBeta", (Beta,), {"low": low, "high": high})

    def __call__(self, outputs: Tensor, std: Optional[Tensor]) -> Beta:
        return self._kind(*super().__call__(outputs, std).parameters.values())

    def of_parameters(self, parameters: native.Parameters) -> Beta:
        return self._kind(parameters["alpha"], parameters["beta"])


class FirstOfTwo(nn.Module):
    """The first [..., A] of [..., 2, A]."""

    def forward(self, x: Tensor) -> Tensor:
        return x[..., 0, :]


class BetaMeanOfTwo(nn.Module):
    """The mean [..., A] of beta distributions with outputs [..., 2, A]."""

    def __init__(self, low: float, high: float):
        super().__init__()
        self.low, self.width = low, high - low

    def forward(self, x: Tensor) -> Tensor:
        alpha, beta = (1.0 + F.softplus(x)).unbind(-2)
        return self.low + self.width * alpha / (alpha + beta)


# Distributions of a client


class ModuleDistribution(native.Distribution):
    """The latest distribution of a client's module; a later ``update`` of the module changes it."""

    def __init__(self, module: Any):
        self._module = module
        self.parameters = {f"parameter_{i}": parameter for i, parameter in enumerate(module.params)}

    mode = property(lambda self: self._module.mean)
    std = property(lambda self: self._module.std)

    def sample(self) -> Tensor:
        return self._module.sample()

    def log_prob(self, actions: Tensor) -> Tensor:
        return self._module.log_prob(actions).unsqueeze(-1)

    def entropy(self) -> Tensor:
        return self._module.entropy.unsqueeze(-1)

    def kl_from(self, old: native.Parameters) -> Tensor:
        before = tuple(old[name] for name in self.parameters)
        return self._module.kl_divergence(before, self._module.params).unsqueeze(-1)

    def detach(self) -> native.Distribution:
        return self


class ForwardFamily(DistributionFamily):
    """The distribution of a client's network whose ``forward`` computes the actions without exploration and updates it.

    ``network`` has drawn actions once, so that the parameters are known.
    """

    def __init__(self, network: Any):
        latest = network.latest_distribution
        super().__init__(latest.mode.shape[-1])
        self._network = network
        self._shapes = {name: tuple(parameter.shape[1:]) for name, parameter in latest.parameters.items()}

    num_outputs = property(lambda self: self.num_actions)  # type: ignore[assignment]
    parameter_shapes = property(lambda self: self._shapes)  # type: ignore[assignment]

    def __call__(self, outputs: Tensor, std: Optional[Tensor]) -> native.Distribution:
        return self._network.latest_distribution

    def of_parameters(self, parameters: native.Parameters) -> native.Distribution:
        """Return the latest distribution of the network, whose parameters these are."""
        return self._network.latest_distribution

    def mode(self, outputs: Tensor) -> Tensor:
        return outputs


class ModuleFamily(DistributionFamily):
    """A client's module as a family; its parameters have the size of an action."""

    def __init__(self, module: Any):
        super().__init__(module.output_dim)
        self._module = module

    @property
    def num_outputs(self) -> int:
        size = self._module.input_dim
        return size if isinstance(size, int) else math.prod(size)

    @property
    def parameter_shapes(self) -> Dict[str, Tuple[int, ...]]:
        with torch.no_grad():
            parameters = self(torch.ones(1, self.num_outputs), None).parameters
        return {name: tuple(parameter.shape[1:]) for name, parameter in parameters.items()}

    def __call__(self, outputs: Tensor, std: Optional[Tensor]) -> native.Distribution:
        self._module.update(self._shaped(outputs))
        return ModuleDistribution(self._module)

    def of_parameters(self, parameters: native.Parameters) -> native.Distribution:
        """Return the latest distribution of the module, whose parameters these are."""
        return ModuleDistribution(self._module)

    def mode(self, outputs: Tensor) -> Tensor:
        return self._module.deterministic_output(self._shaped(outputs))

    def _shaped(self, outputs: Tensor) -> Tensor:
        size = self._module.input_dim
        return outputs if isinstance(size, int) else outputs.unflatten(-1, size)
