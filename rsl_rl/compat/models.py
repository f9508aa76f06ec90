"""Networks over observation groups with the constructors and methods that rsl_rl 4 and 5 have, to derive others from.

A configuration that names one of these classes itself gets this package's own networks; a derived class becomes one
half of a :class:`ModelPolicy`.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import torch
from torch import Tensor, nn

from rsl_rl.compat.exact_gaussian import output_distribution
from rsl_rl.compat.exported_model import ExportedModel, scriptable
from rsl_rl.compat.former_modules import CNN, MLP, RNN, EmpiricalNormalization
from rsl_rl.utils.trajectories import HiddenState, unpad_trajectories

Groups = Mapping[str, Tensor]


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

    @property
    def output_mean(self) -> Tensor:
        """Mean of the latest distribution."""
        return self.latest_distribution.mode

    @property
    def output_std(self) -> Tensor:
        """Standard deviation of the latest distribution."""
        return self.latest_distribution.std

    @property
    def output_entropy(self) -> Tensor:
        """Entropy of the latest distribution [...]."""
        return self.latest_distribution.entropy().squeeze(-1)

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
        return scriptable(self)

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
