"""A policy of two networks that a client derived from those of rsl_rl 4 and 5."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Sequence, Tuple, Type

import torch
from torch import Tensor, nn

from rsl_rl.compat.models import MLPModel
from rsl_rl.config.policy import ActorCriticConfig
from rsl_rl.distributed import SINGLE_PROCESS, Collective
from rsl_rl.modules.actor_critic import ActorCritic
from rsl_rl.modules.distribution_families import distribution_family
from rsl_rl.modules.model import Model, Observation
from rsl_rl.modules.value_normalizer import NoValueNormalizer
from rsl_rl.utils.trajectories import HiddenState, ResetMasks

Network = Tuple[Type[MLPModel], Dict[str, Any]]
"""A class, and the settings of its constructor."""


class ClientModel(Model):
    """A client's network where a policy expects ours: its latent and perceptron, over any leading dimensions."""

    def __init__(self, groups: Sequence[str], network: MLPModel, num_dims: Mapping[str, int]):
        super().__init__(groups, network.obs_normalizer, {}, None, network.mlp)  # type: ignore[arg-type]
        self.network, self._num_dims = network, dict(num_dims)

    def read(self, obs: Observation) -> Observation:
        if isinstance(obs, Tensor):
            return {self.groups[0]: obs}
        return {group: obs[group] for group in self.groups}

    def forward(self, x: Observation, masks: Optional[ResetMasks] = None, state: HiddenState = None) -> Tensor:
        flat, leading = self._flattened(x)
        outputs = self.network.mlp(self.network.get_latent(flat))
        return outputs.reshape(*leading, -1)

    def forward_stateless(self, x: Observation) -> Tensor:
        return self(x)

    def update_normalization(
        self, obs: Observation, sample_mask: Optional[Tensor] = None, collective: Collective = SINGLE_PROCESS
    ) -> None:
        """Merge a rollout [T, N, ...] into the client's statistics; all ranks get those of rank 0."""
        self.network.update_normalization(self._flattened(self.read(obs))[0])
        collective.load_from_first(self.network.obs_normalizer)

    def _flattened(self, x: Observation) -> Tuple[Dict[str, Tensor], Tuple[int, ...]]:
        """Return groups [B, ...], and the leading dimensions that became B."""
        assert not isinstance(x, Tensor)
        first = self.groups[0]
        leading = tuple(x[first].shape[: x[first].dim() - self._num_dims[first]])
        flat = {g: x[g].reshape(-1, *x[g].shape[x[g].dim() - self._num_dims[g] :]).float() for g in self.groups}
        return flat, leading


class ModelPolicy(ActorCritic):
    """An actor and a critic of a client's classes; ``obs`` are observations of the environment."""

    actor: MLPModel  # type: ignore[assignment]
    critic: MLPModel  # type: ignore[assignment]

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
        self.family = distribution_family(cfg, num_actions)
        sets = {"actor": cfg.actor_groups, "critic": cfg.critic_groups}
        models = []
        for (role, groups), (cls, own), size in zip(sets.items(), networks, (num_actions, 1)):
            network = cls(obs, {name: list(names) for name, names in sets.items()}, role, size, **own)
            setattr(self, role, network)
            num_dims = {group: obs[group].dim() - 1 for group in groups}
            models.append(ClientModel(groups, network, num_dims))
        self._models = (models[0], models[1])
        # not registered a second time: they are parts of the networks
        vars(self).update(
            actor_obs_normalizer=self.actor.obs_normalizer, critic_obs_normalizer=self.critic.obs_normalizer
        )
        self.value_normalizer = NoValueNormalizer()
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
