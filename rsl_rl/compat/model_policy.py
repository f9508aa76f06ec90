"""A policy of two networks that a client derived from those of rsl_rl 4 and 5."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Sequence, Tuple, Type

import torch
from torch import Tensor, nn

from rsl_rl.compat.exported_model import ExportedModel
from rsl_rl.compat.model_memory import ModelMemory, dones_of, trajectory_states
from rsl_rl.compat.models import MLPModel, RNNModel
from rsl_rl.compat.policies import ActorCritic
from rsl_rl.config.policy import ActorCriticConfig
from rsl_rl.distributed import Collective
from rsl_rl.modules.model import Model, Observation
from rsl_rl.utils.trajectories import HiddenState, ResetMasks, split_and_pad_trajectories

Network = Tuple[Type[MLPModel], Dict[str, Any]]
"""A class, and the settings of its constructor."""


class ClientModel(Model):
    """A client's network where a policy expects ours: its latent and perceptron, over any leading dimensions.

    A network with a memory gets the sequences of a mini-batch as padded trajectories.
    """

    def __init__(self, groups: Sequence[str], network: MLPModel, num_dims: Mapping[str, int]):
        super().__init__(groups, network.obs_normalizer, {}, None, network.mlp)  # type: ignore[arg-type]
        self.network, self._num_dims = network, dict(num_dims)
        self.has_statistics = True  # the network knows whether it has some
        if isinstance(network, RNNModel):
            self.memory = ModelMemory(network)  # type: ignore[assignment]

    def forward(
        self, obs: Observation, masks: Optional[ResetMasks] = None, state: HiddenState = None, advance: bool = True
    ) -> Tensor:
        x = {self.groups[0]: obs} if isinstance(obs, Tensor) else {group: obs[group] for group in self.groups}
        if masks is not None and self.memory is not None:
            return self._trajectories(x, masks, state)
        flat, leading = self._flattened(x)
        before = self.network.get_hidden_state()
        outputs = self.network.mlp(self.network.get_latent(flat))
        if not advance:
            self.network.reset(hidden_state=before)
        return outputs.reshape(*leading, -1)

    def _trajectories(self, x: Mapping[str, Tensor], masks: ResetMasks, state: HiddenState) -> Tensor:
        """Return the outputs [T, n, outputs] for sequences [T, n, ...] from the states [L, n, H] before them."""
        dones = dones_of(masks.keep_state)
        padded, samples = split_and_pad_trajectories({group: x[group].float() for group in self.groups}, dones)
        latent = self.network.get_latent(padded, samples, trajectory_states(state, dones))
        return self.network.mlp(latent).reshape(*dones.shape, -1)

    def update_normalization(self, obs: Mapping[str, Tensor], sample_mask: Tensor, collective: Collective) -> None:
        """Merge a rollout [T, N, ...] into the client's statistics; all ranks get those of rank 0."""
        self.network.update_normalization(self._flattened(obs)[0])
        collective.load_from_first(self.network.obs_normalizer)

    def export_module(self) -> nn.Module:
        return ExportedModel(self.network)

    def _flattened(self, x: Mapping[str, Tensor]) -> Tuple[Dict[str, Tensor], Tuple[int, ...]]:
        """Return groups [B, ...], and the leading dimensions that became B."""
        first = self.groups[0]
        leading = tuple(x[first].shape[: x[first].dim() - self._num_dims[first]])
        flat = {g: x[g].reshape(-1, *x[g].shape[x[g].dim() - self._num_dims[g] :]).float() for g in self.groups}
        return flat, leading


class ModelPolicy(ActorCritic):
    """An actor and a critic of a client's classes; ``obs`` are observations of the environment."""

    actor: MLPModel  # type: ignore[assignment]
    critic: MLPModel  # type: ignore[assignment]

    @property
    def is_recurrent(self) -> bool:  # type: ignore[override]
        """Whether one of the networks has a memory."""
        return self.memories != (None, None)

    def __init__(
        self,
        num_actor_obs: int,
        num_critic_obs: int,
        num_actions: int,
        image_shapes: Optional[Mapping[str, Sequence[int]]] = None,
        *,
        networks: Sequence[Network],
        obs: Mapping[str, Tensor],
        **settings: Any,
    ):
        nn.Module.__init__(self)
        self.cfg = cfg = ActorCriticConfig(**settings)
        self.num_actor_obs = num_actor_obs
        sets = {"actor": cfg.actor_groups, "critic": cfg.critic_groups}
        models = []
        for (role, groups), (cls, own), size in zip(sets.items(), networks, (num_actions, 1)):
            network = cls(obs, {name: list(names) for name, names in sets.items()}, role, size, **own)
            setattr(self, role, network)
            num_dims = {group: obs[group].dim() - 1 for group in groups}
            models.append(ClientModel(groups, network, num_dims))
        self._set_models(models[0], models[1])
        assert self.actor.distribution is not None  # every actor's settings have one
        self.family = self.actor.distribution.family
        # not registered a second time: they are parts of the networks
        vars(self).update(
            actor_obs_normalizer=self.actor.obs_normalizer, critic_obs_normalizer=self.critic.obs_normalizer
        )
        self.value_normalizer = nn.Identity()
        noise = torch.full((num_actions,), float(cfg.init_noise_std))
        self.distribution = self.family(torch.zeros(self.family.num_outputs), noise)

    def noise_std(self) -> Tensor:
        std = None if self.actor.distribution is None else self.actor.distribution.noise_std()
        return self.distribution.std if std is None else std

    def file_parts(self) -> Dict[str, Any]:
        """Return the networks' tensors as rsl_rl 5 saves them."""
        return {f"{role}_state_dict": getattr(self, role).state_dict() for role in ("actor", "critic")}


def native_weights(state: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the weights of a file of rsl_rl 5 under the names of a :class:`ModelPolicy`."""
    roles = ("actor", "critic")
    return {f"{role}.{name}": value for role in roles for name, value in state[f"{role}_state_dict"].items()}
