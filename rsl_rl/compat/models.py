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

from rsl_rl.compat.former_code import CNN, MLP, RNN, EmpiricalNormalization
from rsl_rl.config.policy import ActorCriticConfig
from rsl_rl.exporters.policy_module import FeedForwardPolicy, ImagePolicy, action_layers, example_inputs, output_names
from rsl_rl.modules.distributions import Distribution, distribution_family, smooth_floor
from rsl_rl.utils.trajectories import HiddenState, as_states, unpad_trajectories

Groups = Mapping[str, Tensor]

# Distribution

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


def output_distribution(num_actions: int, given: Mapping[str, Any]) -> OutputDistribution:
    """Return the distribution for a ``distribution_cfg``; its ``class_name`` may be a class derived from ours."""
    cls = given.get("class_name")
    own = isinstance(cls, type) and issubclass(cls, OutputDistribution)
    return cls(num_actions, given) if own else OutputDistribution(num_actions, given)  # type: ignore[misc]


# Networks


class MLPModel(nn.Module):
    """A perceptron over concatenated vector groups.

    ``obs_groups[obs_set]`` names the groups. With ``distribution_cfg`` the outputs are parameters of a distribution
    over ``output_dim`` numbers.
    """

    is_recurrent = False

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
        num_outputs = output_dim if self.distribution is None else self.distribution.family.num_outputs
        self.mlp = MLP(self._get_latent_dim(), num_outputs, hidden_dims, activation)

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

    output_mean = property(lambda self: self.latest_distribution.mode)
    output_std = property(lambda self: self.latest_distribution.std)
    output_entropy = property(lambda self: self.latest_distribution.entropy().squeeze(-1))

    def get_output_log_prob(self, outputs: Tensor) -> Tensor:
        """Return the log density [...] of actions under the latest distribution."""
        return self.latest_distribution.log_prob(outputs).squeeze(-1)

    @property
    def latest_distribution(self) -> Any:
        """The latest distribution over the outputs."""
        if self.distribution is None:
            raise ValueError("the network has no distribution; give it a distribution_cfg")
        return self.distribution.latest

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
        *args: Any,
        rnn_type: str = "lstm",
        rnn_hidden_dim: int = 256,
        rnn_num_layers: int = 1,
        **kwargs: Any,
    ):
        self.latent_dim = rnn_hidden_dim
        super().__init__(*args, **kwargs)
        self.rnn = RNN(self.obs_dim, rnn_hidden_dim, rnn_num_layers, rnn_type)

    def get_latent(self, obs: Groups, masks: Optional[Tensor] = None, hidden_state: HiddenState = None) -> Tensor:
        return self.rnn(super().get_latent(obs), masks, hidden_state).squeeze(0)

    def reset(self, dones: Optional[Tensor] = None, hidden_state: HiddenState = None) -> None:
        """Zero the states of the environments marked in dones [N], or set all of them."""
        self.rnn.reset(dones, hidden_state)

    def get_hidden_state(self) -> HiddenState:
        """Return the state."""
        return self.rnn.hidden_state

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
        return super()._get_obs_dim(obs, {obs_set: vectors}, obs_set)

    def _get_latent_dim(self) -> int:
        return self.obs_dim + self.cnn_latent_dim


# Networks as files: a client's network is traced, whatever its methods do


class ExportedModel(ImagePolicy):
    """obs [1, D], each image group [1, C, H, W], h_in and c_in [L, 1, H] of a memory -> actions [1, A], h_out, c_out.

    ``network`` is a network of version 4 or 5; actions are without exploration.
    """

    def __init__(self, network: Any, verbose: bool = False):
        nn.Module.__init__(self)
        latest = {} if network.distribution is None else {id(network.distribution.latest): None}
        self.network = copy.deepcopy(network, latest).cpu().eval().requires_grad_(False)
        self.network.reset()
        self.layers = nn.ModuleList([] if network.distribution is None else action_layers(network.distribution.family))
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
        x = network.mlp(network.get_latent(groups))
        for layer in self.layers:
            x = layer(x)
        after = as_states(network.get_hidden_state()) if states else ()
        network.reset()
        return (x, *after) if states else x  # type: ignore[return-value]

    def get_dummy_inputs(self) -> Tuple[Tensor, ...]:
        """Return inputs of zeros."""
        return tuple(example_inputs(self).values())


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
