"""Policies and their memory with the names and calls of rsl_rl 1 to 3."""

from __future__ import annotations

import sys
from dataclasses import fields
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor, nn

from rsl_rl.compat.former_names import Facade
from rsl_rl.distributed import SINGLE_PROCESS
from rsl_rl.env.vec_env import is_groups
from rsl_rl.modules import memory
from rsl_rl.modules import policy as native
from rsl_rl.modules.distributions import Distribution
from rsl_rl.modules.model import Model, Observation
from rsl_rl.modules.networks import init_orthogonal
from rsl_rl.utils.trajectories import HiddenState, ResetMasks, unpad_trajectories

Masks = Union[ResetMasks, Tensor, None]
"""Resets of a recurrent mini-batch, the masks [T, M] of padded trajectories, or None while acting."""


class ActorCritic(native.ActorCritic, metaclass=Facade):
    """An :class:`rsl_rl.modules.policy.ActorCritic` with the names of rsl_rl 1 to 3.

    It is constructed from sizes, or as in version 3 from ``(obs, obs_groups, num_actions, ...)``. Observations may be
    one tensor [N, D]; masks [T, M] with first states [L, M, H] are those of padded trajectories.
    """

    stands_for = native.ActorCritic
    is_recurrent: bool = False

    def __init__(self, *args: Any, **settings: Any):
        if "rnn_hidden_dim" in settings:
            settings["rnn_hidden_size"] = settings.pop("rnn_hidden_dim")
        first = args[0] if args else settings.get("obs")
        if is_groups(first):
            args, settings = self._of_groups(*args, **settings)
        super().__init__(*args, **settings)

    def _of_groups(
        self, obs: Any, obs_groups: Mapping[str, Sequence[str]], num_actions: int, **settings: Any
    ) -> Tuple[Tuple[Any, ...], Dict[str, Any]]:
        """Return our arguments for those of version 3; settings without effect are named."""
        known = {field.name for field in fields(self.config_class)}
        unused = [name for name in settings if name not in known]
        if unused:
            print(f"rsl_rl: {type(self).__name__} has no {', '.join(unused)}; they have no effect", file=sys.stderr)
        ours = {name: tuple(x) if isinstance(x, list) else x for name, x in settings.items() if name in known}
        roles = {"actor": list(obs_groups["policy"]), "critic": list(obs_groups["critic"])}
        images = {
            group: tuple(obs[group].shape[1:]) for groups in roles.values() for group in groups if obs[group].dim() > 2
        }
        sizes = [sum(obs[group].shape[-1] for group in groups if group not in images) for groups in roles.values()]
        ours.update({f"{role}_groups": tuple(groups) for role, groups in roles.items()})
        return (sizes[0], sizes[1], num_actions, images), ours

    actor_obs_normalization = property(lambda self: self.cfg.actor_obs_normalization)
    critic_obs_normalization = property(lambda self: self.cfg.critic_obs_normalization)
    state_dependent_std = property(lambda self: self.cfg.state_dependent_std)
    noise_std_type = property(lambda self: self.cfg.noise_std_type)

    @staticmethod
    def init_weights(sequential: nn.Sequential, scales: Sequence[float]) -> None:
        """Make each linear layer's weight orthogonal with the gain of its place in ``scales``, and its bias zero."""
        init_orthogonal(sequential, scales)

    def update_distribution(  # type: ignore[override]
        self, observations: Observation, masks: Masks = None, hidden_states: HiddenState = None
    ) -> Distribution:
        """Compute the distribution over actions."""
        if not isinstance(masks, Tensor):
            return super().update_distribution(observations, masks, hidden_states)
        outputs = _of_trajectories(self.actor_model, observations, masks, hidden_states)
        self.distribution = self.family(outputs, self.noise_std() if self.family.shared_parameters else None)
        return self.distribution

    def act(  # type: ignore[override]
        self, observations: Observation, masks: Masks = None, hidden_states: HiddenState = None
    ) -> Tensor:
        """Draw actions [..., A]."""
        self.update_distribution(observations, masks, hidden_states)
        return self.distribution.sample()

    def evaluate(  # type: ignore[override]
        self,
        critic_observations: Observation,
        masks: Masks = None,
        hidden_states: HiddenState = None,
        advance: bool = True,
    ) -> Tensor:
        """Return the value [..., 1]."""
        if not isinstance(masks, Tensor):
            return super().evaluate(critic_observations, masks, hidden_states, advance)
        outputs = _of_trajectories(self.critic_model, critic_observations, masks, hidden_states)
        return self.value_normalizer(outputs)

    @torch.inference_mode(False)
    @torch.no_grad()
    def update_normalization(self, obs: Mapping[str, Tensor]) -> None:
        """Merge observation groups [N, ...] into the running statistics; a runner does this itself."""
        for model in (self.actor_model, self.critic_model):
            if model.has_statistics:
                weights = torch.ones(*model.vectors(obs).shape[:-1], 1, device=next(self.parameters()).device)
                model.update_normalization(obs, weights, SINGLE_PROCESS)

    def get_actions_log_prob(self, actions: Tensor) -> Tensor:
        """Return the log density [...] of actions [..., A] under the current distribution."""
        return self.distribution.log_prob(actions).squeeze(-1)

    action_mean = property(lambda self: self.distribution.mode)
    action_std = property(lambda self: self.distribution.std.expand_as(self.distribution.mode))

    @property
    def entropy(self) -> Tensor:
        """Entropy of the current distribution [...] in nats."""
        return self.distribution.entropy().squeeze(-1).expand(self.distribution.mode.shape[:-1])


def _of_trajectories(model: Model, obs: Observation, masks: Tensor, state: HiddenState) -> Tensor:
    """Return the outputs [T, N, ...] for padded trajectories [T, M, ...] with their masks and first states."""
    outputs = model(obs, ResetMasks.none(masks.shape, masks.device), state)
    return unpad_trajectories(outputs, masks)


class ActorCriticRecurrent(ActorCritic, native.ActorCriticRecurrent):
    """An :class:`ActorCritic` with a GRU or LSTM in front of the heads."""

    stands_for = native.ActorCriticRecurrent
    is_recurrent = True


class SymmetricActorCritic(ActorCritic, native.SymmetricActorCritic):
    """An :class:`ActorCritic` with left-right symmetry."""

    stands_for = native.SymmetricActorCritic


class SymmetricActorCriticRecurrent(ActorCriticRecurrent, SymmetricActorCritic, native.SymmetricActorCriticRecurrent):
    """An :class:`ActorCriticRecurrent` with left-right symmetry."""

    stands_for = native.SymmetricActorCriticRecurrent


FACADES = {
    cls.stands_for: cls
    for cls in (ActorCritic, ActorCriticRecurrent, SymmetricActorCritic, SymmetricActorCriticRecurrent)
}
"""The class that stands for each of this version's policies."""


class Memory(memory.Memory, metaclass=Facade):
    """A GRU or LSTM that is called as in rsl_rl 1."""

    stands_for = memory.Memory

    def forward(self, input: Tensor, masks: Optional[Tensor] = None, hidden_states: HiddenState = None) -> Tensor:
        """Step all environments on [N, D], or, with masks [T, M], run padded trajectories [T, M, D] from their first
        states [L, M, H] and unpad: [T, N, H]; see ``split_and_pad_trajectories``."""
        if masks is None:
            return self.step(input)
        outputs = self.sequence(input, ResetMasks.none(masks.shape, masks.device), hidden_states)
        return unpad_trajectories(outputs, masks)


def as_client_policy(policy: native.ActorCritic) -> Any:
    """Return a policy of this version as its facade: the same object, whose class becomes the facade's."""
    facade = FACADES.get(type(policy))
    if facade is not None:
        policy.__class__ = facade
    return policy
