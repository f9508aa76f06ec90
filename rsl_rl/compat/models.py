"""Networks over observation groups with the constructors and methods that rsl_rl 4 and 5 have, to derive others from.

A configuration that names one of these classes itself gets this package's own networks; a derived class becomes one
half of a :class:`ModelPolicy`.
"""

from __future__ import annotations

import copy
import warnings
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import torch
from torch import Tensor, nn

from rsl_rl.compat.distributions import (
    BetaDistribution,
    Distribution,
    GaussianDistribution,
    HeteroscedasticGaussianDistribution,
)
from rsl_rl.compat.eras import resolve_class
from rsl_rl.compat.former_code import CNN, MLP, RNN, EmpiricalNormalization
from rsl_rl.exporters.policy_module import FeedForwardPolicy, ImagePolicy, example_inputs, output_names
from rsl_rl.modules import distributions as native
from rsl_rl.utils.trajectories import HiddenState, as_states, unpad_trajectories

Groups = Mapping[str, Tensor]

# Distribution

_NAMES = {
    "GaussianDistribution": "gaussian",
    "HeteroscedasticGaussianDistribution": "gaussian",
    "BetaDistribution": "beta",
}
_LEAST_STD, _TINY = 0.01, 1e-6


def std_settings(given: Mapping[str, Any]) -> Dict[str, Any]:
    """Return our settings of the distribution for a ``distribution_cfg``, or the settings of version 4."""
    name = given.get("class_name", "GaussianDistribution")
    name = (name if isinstance(name, str) else name.__name__).replace(":", ".").rpartition(".")[2]
    if name not in _NAMES:
        raise ValueError(f"distribution_cfg.class_name={name} is not supported; allowed: {', '.join(_NAMES)}")
    std = max(given.get("init_std", given.get("init_noise_std", 1.0)), 2 * _TINY)  # 0 is that of a teacher
    least = (given.get("std_range") or (min(_LEAST_STD, 0.5 * std),))[0]
    return {
        "distribution": _NAMES[name],
        "init_noise_std": std,
        "noise_std_type": given.get("std_type", given.get("noise_std_type", "scalar")),
        "state_dependent_std": name.startswith("Hetero") or bool(given.get("state_dependent_std", False)),
        "min_noise_std": max(least, _TINY),
    }


_OF_VERSION_4 = {"init_noise_std": "init_std", "noise_std_type": "std_type"}
"""Names of version 4 for settings of a distribution."""
_DISTRIBUTIONS = {
    "GaussianDistribution": GaussianDistribution,
    "HeteroscedasticGaussianDistribution": HeteroscedasticGaussianDistribution,
    "BetaDistribution": BetaDistribution,
}
OURS = tuple(_DISTRIBUTIONS.values())
"""Distributions that are computed by this version's families; a client's class is called as it is."""


def distribution_class(given: Mapping[str, Any]) -> Any:
    """Return the class that a ``distribution_cfg``, or the settings of version 4, name; it may be a client's."""
    name = given.get("class_name", "GaussianDistribution")
    if given.get("state_dependent_std"):
        return HeteroscedasticGaussianDistribution
    if isinstance(name, str) and name.replace(":", ".").rpartition(".")[2] in _DISTRIBUTIONS:
        return _DISTRIBUTIONS[name.replace(":", ".").rpartition(".")[2]]
    return resolve_class(name)


def output_distribution(num_actions: int, given: Mapping[str, Any]) -> Distribution:
    """Return the distribution for a ``distribution_cfg``, or the settings of version 4."""
    others = ("class_name", "state_dependent_std", "stochastic")
    settings = {_OF_VERSION_4.get(name, name): value for name, value in given.items() if name not in others}
    return distribution_class(given)(num_actions, **settings)


# Networks


class MLPModel(nn.Module):
    """A perceptron over concatenated vector groups.

    ``obs_groups[obs_set]`` names the groups. With ``distribution_cfg`` the outputs are parameters of a distribution
    over ``output_dim`` numbers.
    """

    is_recurrent = False
    distribution: Optional[Distribution]

    def __init__(
        self,
        obs: Groups,
        obs_groups: Mapping[str, Sequence[str]],
        obs_set: str,
        output_dim: int,
        hidden_dims: Sequence[int] = (256, 256, 256),
        activation: str = "elu",
        obs_normalization: bool = False,
        distribution_cfg: Optional[Mapping[str, Any]] = None,
    ):
        super().__init__()
        self.obs_groups, self.obs_dim = self._get_obs_dim(obs, obs_groups, obs_set)
        self.group_sizes = [obs[group].shape[-1] for group in self.obs_groups]
        self.obs_normalization = obs_normalization
        self.obs_normalizer = EmpiricalNormalization(self.obs_dim) if obs_normalization else nn.Identity()
        self.distribution = None if distribution_cfg is None else output_distribution(output_dim, distribution_cfg)
        num_outputs = output_dim if self.distribution is None else self.distribution.input_dim
        self.mlp = MLP(self._get_latent_dim(), num_outputs, hidden_dims, activation)
        if self.distribution is not None:
            self.distribution.init_mlp_weights(self.mlp)

    @classmethod
    def has_own_forward(cls) -> bool:
        """Return whether a client's class computes its outputs itself, and not from ``get_latent`` and ``mlp``."""
        return cls.forward is not MLPModel.forward

    def forward(
        self,
        obs: Groups,
        masks: Optional[Tensor] = None,
        hidden_state: HiddenState = None,
        stochastic_output: bool = False,
    ) -> Tensor:
        """Return the outputs; with a distribution the action without exploration, or a drawn one."""
        obs = obs if masks is None or self.is_recurrent else unpad_trajectories(obs, masks)
        outputs = self.mlp(self.get_latent(obs, masks, hidden_state))
        if self.distribution is None:
            return outputs
        self.distribution.update(outputs)
        return self.distribution.sample() if stochastic_output else self.distribution.deterministic_output(outputs)

    @property
    def read_groups(self) -> List[str]:
        """Groups that the network reads."""
        return [*self.obs_groups, *getattr(self, "obs_groups_2d", ())]

    def get_latent(self, obs: Groups, masks: Optional[Tensor] = None, hidden_state: HiddenState = None) -> Tensor:
        """Return what the perceptron reads."""
        return self.obs_normalizer(torch.cat([obs[group] for group in self.obs_groups], dim=-1))

    def update_normalization(self, obs: Groups) -> None:
        """Merge observations [N, ...] into the running statistics."""
        if isinstance(self.obs_normalizer, EmpiricalNormalization):
            self.obs_normalizer.update(torch.cat([obs[group] for group in self.obs_groups], dim=-1))

    def reset(self, dones: Optional[Tensor] = None, hidden_state: HiddenState = None) -> None:
        """Do nothing: there is no state."""

    def get_hidden_state(self) -> HiddenState:
        """Return None: there is no state."""
        return None

    def detach_hidden_state(self, dones: Optional[Tensor] = None) -> None:
        """Do nothing: there is no state."""

    output_mean = property(lambda self: self._required_distribution.mean)
    output_std = property(lambda self: self._required_distribution.std)
    output_entropy = property(lambda self: self._required_distribution.entropy)

    def get_output_log_prob(self, outputs: Tensor) -> Tensor:
        """Return the log density [...] of actions under the latest distribution."""
        return self._required_distribution.log_prob(outputs)

    @property
    def output_distribution_params(self) -> Tuple[Tensor, ...]:
        """Parameters of the latest distribution."""
        return self._required_distribution.params

    def get_kl_divergence(self, old_params: Tuple[Tensor, ...], new_params: Tuple[Tensor, ...]) -> Tensor:
        """Return KL(old || new) [...] in nats of distributions with these parameters."""
        return self._required_distribution.kl_divergence(old_params, new_params)

    @property
    def latest_distribution(self) -> Any:
        """The latest distribution over the outputs, with the calls of this version."""
        return self._required_distribution.as_native

    @property
    def _required_distribution(self) -> Any:
        if self.distribution is None:
            raise AttributeError("the network has no distribution; give it a distribution_cfg")
        return self.distribution

    def as_jit(self) -> nn.Module:
        """Return a copy that ``torch.jit.script`` takes; a recurrent one keeps its state itself."""
        return scriptable(ExportedModel(self))

    def as_onnx(self, verbose: bool = False) -> nn.Module:
        """Return a copy for ``torch.onnx.export``."""
        return ExportedModel(self, verbose)

    def _get_obs_dim(self, obs: Groups, obs_groups: Mapping[str, Sequence[str]], obs_set: str) -> Tuple[List[str], int]:
        """Return the vector groups to read, and the sum of their sizes."""
        groups = list(obs_groups[obs_set])
        for group in groups:
            if obs[group].dim() != 2:
                raise ValueError(f"the group '{group}' has the shape {list(obs[group].shape)}; give vectors [N, size]")
        return groups, sum(obs[group].shape[-1] for group in groups)

    def _get_latent_dim(self) -> int:
        """Return the size of what the perceptron reads."""
        return self.obs_dim


class RNNModel(MLPModel):
    """A perceptron behind a GRU or LSTM."""

    is_recurrent = True

    def __init__(
        self,
        obs: Groups,
        obs_groups: Mapping[str, Sequence[str]],
        obs_set: str,
        output_dim: int,
        hidden_dims: Sequence[int] = (256, 256, 256),
        activation: str = "elu",
        obs_normalization: bool = False,
        distribution_cfg: Optional[Mapping[str, Any]] = None,
        rnn_type: str = "lstm",
        rnn_hidden_dim: int = 256,
        rnn_num_layers: int = 1,
    ):
        self.latent_dim = rnn_hidden_dim
        super().__init__(
            obs, obs_groups, obs_set, output_dim, hidden_dims, activation, obs_normalization, distribution_cfg
        )
        self.rnn = RNN(self.obs_dim, rnn_hidden_dim, rnn_num_layers, rnn_type)

    def get_latent(self, obs: Groups, masks: Optional[Tensor] = None, hidden_state: HiddenState = None) -> Tensor:
        return self.rnn(super().get_latent(obs), masks, hidden_state).squeeze(0)

    def reset(self, dones: Optional[Tensor] = None, hidden_state: HiddenState = None) -> None:
        """Zero the states of the environments marked in dones [N], or set all of them."""
        self.rnn.reset(dones, hidden_state)

    def get_hidden_state(self) -> HiddenState:
        """Return the state."""
        return self.rnn.hidden_state

    def detach_hidden_state(self, dones: Optional[Tensor] = None) -> None:
        """Keep the state without its gradient, of the environments marked in dones [N] or of all."""
        self.rnn.detach_hidden_state(dones)

    def _get_latent_dim(self) -> int:
        return self.latent_dim


class CNNModel(MLPModel):
    """A perceptron over vector groups and the features of image groups [N, C, H, W]."""

    def __init__(
        self,
        obs: Groups,
        obs_groups: Mapping[str, Sequence[str]],
        obs_set: str,
        output_dim: int,
        hidden_dims: Sequence[int] = (256, 256, 256),
        activation: str = "elu",
        obs_normalization: bool = False,
        distribution_cfg: Optional[Mapping[str, Any]] = None,
        cnn_cfg: Optional[Mapping[str, Any]] = None,
        cnns: Optional[Mapping[str, nn.Module]] = None,
    ):
        self._get_obs_dim(obs, obs_groups, obs_set)
        if cnns is None:
            if cnn_cfg is None:
                raise ValueError("cnn_cfg is missing; describe the encoders, as in {'output_channels': [16, 32], ...}")
            each: Dict[str, Any] = {group: cnn_cfg.get(group, cnn_cfg) for group in self.obs_groups_2d}
            sizes = zip(self.obs_groups_2d, self.obs_dims_2d, self.obs_channels_2d)
            cnns = {group: CNN(size, channels, **each[group]) for group, size, channels in sizes}
        self.cnn_latent_dim = sum(int(cnn.output_dim) for cnn in cnns.values())  # type: ignore[arg-type]
        super().__init__(
            obs, obs_groups, obs_set, output_dim, hidden_dims, activation, obs_normalization, distribution_cfg
        )
        self.cnns = cnns if isinstance(cnns, nn.ModuleDict) else nn.ModuleDict(cnns)

    def get_latent(self, obs: Groups, masks: Optional[Tensor] = None, hidden_state: HiddenState = None) -> Tensor:
        vectors = [super().get_latent(obs)] if self.obs_groups else []
        return torch.cat((*vectors, *(self.cnns[group](obs[group]) for group in self.obs_groups_2d)), dim=-1)

    def _get_obs_dim(self, obs: Groups, obs_groups: Mapping[str, Sequence[str]], obs_set: str) -> Tuple[List[str], int]:
        images = [group for group in obs_groups[obs_set] if obs[group].dim() == 4]
        if not images:
            raise ValueError(f"obs_groups['{obs_set}'] names no image group [N, C, H, W]; take MLPModel")
        self.obs_groups_2d = images
        self.obs_dims_2d = [tuple(obs[group].shape[2:]) for group in images]
        self.obs_channels_2d = [obs[group].shape[1] for group in images]
        vectors = [group for group in obs_groups[obs_set] if group not in images]
        return MLPModel._get_obs_dim(self, obs, {obs_set: vectors}, obs_set)  # a client's other class may borrow this

    def _get_latent_dim(self) -> int:
        return self.obs_dim + self.cnn_latent_dim


# Networks as files: a client's network is traced, whatever its methods do


class ExportedModel(ImagePolicy):
    """obs [1, D], each image group [1, C, H, W], h_in and c_in [L, 1, H] of a memory -> actions [1, A], h_out, c_out.

    ``network`` is a network of version 4 or 5; actions are without exploration.
    """

    def __init__(self, network: Any, verbose: bool = False):
        nn.Module.__init__(self)
        self.network = copy.deepcopy(network, with_graph(network)).cpu().eval().requires_grad_(False)
        self.network.reset()
        given = network.distribution
        self.layers = nn.ModuleList([] if given is None else [given.as_deterministic_output_module()])
        self.is_recurrent, self.verbose = bool(network.is_recurrent), verbose
        self.num_obs = self.input_size = network.obs_dim
        images: List[Any] = [getattr(network, f"obs_{name}_2d", []) for name in ("groups", "channels", "dims")]
        self.image_shapes = {group: (channels, *size) for group, channels, size in zip(*images)}
        self.rnn = network.rnn.rnn if self.is_recurrent else None
        self.state_names = () if self.rnn is None else ("h",) if isinstance(self.rnn, nn.GRU) else ("h", "c")
        self.input_names, self.output_names = list(example_inputs(self)), list(output_names(self))

    def forward(self, obs: Tensor, *others: Tensor) -> Tuple[Tensor, ...]:  # type: ignore[override]
        network, num_images = self.network, len(self.image_shapes)
        groups = dict(zip(network.obs_groups, obs.split(network.group_sizes, dim=-1)))
        groups.update(zip(self.image_shapes, others[:num_images]))
        states = others[num_images:]
        if states:
            network.reset(hidden_state=states[0] if len(states) == 1 else tuple(states))
        if network.has_own_forward():
            x = network(groups)
        else:
            x = network.mlp(network.get_latent(groups))
            for layer in self.layers:
                x = layer(x)
        after = as_states(network.get_hidden_state()) if states else ()
        network.reset()
        return (x, *after) if states else x  # type: ignore[return-value]

    def get_dummy_inputs(self) -> Tuple[Tensor, ...]:
        """Return inputs of zeros."""
        return tuple(example_inputs(self).values())


def with_graph(network: Any) -> Dict[int, Any]:
    """Return what a copy of a network cannot take along, with what it has instead, for ``copy.deepcopy``: tensors that
    are part of a graph."""
    memo: Dict[int, Any] = {}
    for module in network.modules():
        for value in vars(module).values():
            if isinstance(value, (native.Distribution, torch.distributions.Distribution)):
                memo[id(value)] = None
            parts = value if isinstance(value, tuple) else (value,)
            memo.update({id(part): part.detach() for part in parts if isinstance(part, Tensor) and not part.is_leaf})
    return memo


class WithoutState(nn.Module):
    """obs [1, D] -> actions [1, A]."""

    def __init__(self, policy: nn.Module):
        super().__init__()
        self.policy = policy

    def forward(self, x: Tensor) -> Tensor:
        return self.policy(x)

    @torch.jit.export
    def reset(self) -> None:
        """Do nothing: there is no state."""


class WithOneState(nn.Module):
    """obs [1, D] -> actions [1, A], with the state of a GRU inside."""

    def __init__(self, policy: nn.Module, zeros: Tensor):
        super().__init__()
        self.policy = policy
        self.hidden_state: Tensor
        self.register_buffer("hidden_state", zeros)

    def forward(self, x: Tensor) -> Tensor:
        actions, h = self.policy(x, self.hidden_state)
        self.hidden_state[:] = h
        return actions

    @torch.jit.export
    def reset(self) -> None:
        """Start an episode."""
        self.hidden_state[:] = 0.0


class WithTwoStates(nn.Module):
    """obs [1, D] -> actions [1, A], with the states of an LSTM inside."""

    def __init__(self, policy: nn.Module, zeros: Tensor, cell_zeros: Tensor):
        super().__init__()
        self.policy = policy
        self.hidden_state: Tensor
        self.cell_state: Tensor
        self.register_buffer("hidden_state", zeros)
        self.register_buffer("cell_state", cell_zeros)

    def forward(self, x: Tensor) -> Tensor:
        actions, h, c = self.policy(x, self.hidden_state, self.cell_state)
        self.hidden_state[:] = h
        self.cell_state[:] = c
        return actions

    @torch.jit.export
    def reset(self) -> None:
        """Start an episode."""
        self.hidden_state[:] = 0.0
        self.cell_state[:] = 0.0


def scriptable(module: FeedForwardPolicy) -> nn.Module:
    """Return a policy module as one that ``torch.jit.script`` takes and that keeps its recurrent state itself."""
    inputs = example_inputs(module)
    states = [inputs[f"{name}_in"] for name in module.state_names]
    policy: nn.Module = module
    if isinstance(module, ImagePolicy):  # takes any number of inputs
        if states and module.image_shapes:
            raise ValueError("a recurrent network of images cannot be scripted with its state inside; take as_onnx()")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*torch.jit.*", category=DeprecationWarning)
            warnings.filterwarnings("ignore", category=torch.jit.TracerWarning)  # of torch.nn.GRU's own checks
            traced: Any = torch.jit.trace(module, tuple(inputs.values()))
        if module.image_shapes:
            return traced
        policy = traced
    return (WithoutState, WithOneState, WithTwoStates)[len(states)](policy, *states)
