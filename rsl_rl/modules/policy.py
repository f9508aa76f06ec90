"""Policies: an actor and a critic over observation groups."""

from __future__ import annotations

import copy
from typing import Any, ClassVar, Dict, List, Mapping, Optional, Sequence, Tuple, Type

import torch
from torch import Tensor, nn

from rsl_rl.config.policy import (
    ActorCriticConfig,
    ActorCriticRecurrentConfig,
    SymmetricActorCriticConfig,
    SymmetricActorCriticRecurrentConfig,
)
from rsl_rl.modules.distributions import Distribution, distribution_family, smooth_floor
from rsl_rl.modules.memory import Memory
from rsl_rl.modules.mlp import MLP
from rsl_rl.modules.model import Model, Observation
from rsl_rl.modules.networks import CRITIC_PARTS, build_networks
from rsl_rl.modules.normalizer import RunningNorm, ValueNormalizer
from rsl_rl.utils.trajectories import HiddenState, ResetMasks, as_states


class ActorCritic(nn.Module):
    """An actor, which maps observations to a distribution over actions, and a critic, which maps them to a value.

    ``settings`` are the fields of the class's config, here :class:`ActorCriticConfig`; ``num_actor_obs`` and
    ``num_critic_obs`` are the sizes of the concatenated vector groups, ``image_shapes`` those of image groups by name.
    Actor and critic are two :class:`Model` that share no weights. In the state dict their parts have rsl_rl's names:
    ``actor`` and ``critic`` are the heads, ``memory_a`` and ``memory_c`` the memories.
    """

    config_class: ClassVar[Type[ActorCriticConfig]] = ActorCriticConfig
    actor: MLP
    critic: MLP
    actor_model: Model
    """Network from observation groups to the parameters of the distribution."""
    critic_model: Model
    """Network from observation groups to the value."""
    memories: Tuple[Optional[Memory], Optional[Memory]]
    """Memories of actor and critic."""
    _cached_std: Optional[Tensor] = None

    def __init__(
        self,
        num_actor_obs: int,
        num_critic_obs: int,
        num_actions: int,
        image_shapes: Optional[Mapping[str, Sequence[int]]] = None,
        **settings: Any,
    ):
        super().__init__()
        self.cfg = cfg = self.config_class(**settings)
        self.num_actor_obs = num_actor_obs
        self.family = distribution_family(cfg, num_actions)
        networks = build_networks(cfg, (num_actor_obs, num_critic_obs), self.family, num_actions, image_shapes or {})
        for name, module in networks.items():
            setattr(self, name, module)
        norms = cfg.actor_obs_normalization, cfg.critic_obs_normalization
        self.actor_obs_normalizer = RunningNorm(num_actor_obs) if norms[0] else nn.Identity()
        self.critic_obs_normalizer = RunningNorm(num_critic_obs) if norms[1] else nn.Identity()
        self.value_normalizer = ValueNormalizer(self.critic) if cfg.value_normalization else nn.Identity()
        noise = torch.full((num_actions,), float(cfg.init_noise_std))
        if self.family.shared_parameters and cfg.noise_std_type == "log":
            self.log_std = nn.Parameter(noise.log())
        elif self.family.shared_parameters:
            self.std = nn.Parameter(noise)
        if isinstance(cfg, SymmetricActorCriticConfig):
            self.action_mirror_index: Tensor  # [A]
            self.register_buffer("action_mirror_index", torch.tensor(cfg.action_mirror[0]), persistent=False)
        critic_groups = cfg.critic_groups or cfg.actor_groups
        encoders = networks.get("encoder_a", nn.ModuleDict()), networks.get("encoder_c", nn.ModuleDict())
        self._set_models(
            Model(cfg.actor_groups, self.actor_obs_normalizer, encoders[0], networks.get("memory_a"), self.actor),
            Model(critic_groups, self.critic_obs_normalizer, encoders[1], networks.get("memory_c"), self.critic),
        )
        self.distribution: Distribution = self.family(torch.zeros(self.family.num_outputs), noise)
        """The distribution over actions of the last call of :meth:`update_distribution`."""

    def _set_models(self, actor: Model, critic: Model) -> None:
        # not as modules: their parts are, under rsl_rl's names
        vars(self).update(actor_model=actor, critic_model=critic, memories=(actor.memory, critic.memory))

    # Acting and learning

    def update_distribution(
        self, obs: Observation, masks: Optional[ResetMasks] = None, state: HiddenState = None
    ) -> Distribution:
        """Compute the distribution over actions for observation groups; see :class:`Model` for sequences."""
        outputs = self.actor_model(obs, masks, state)
        std = self._cached_std
        if self.family.shared_parameters and (std is None or torch.is_grad_enabled()):
            std = self.noise_std()
        self.distribution = self.family(outputs, std)
        return self.distribution

    def noise_std(self) -> Tensor:
        """Return the standard deviation of the actions [A], or that of the current distribution [..., A] where it
        depends on the state."""
        if not self.family.shared_parameters:
            return self.distribution.std
        raw = self.log_std.exp() if self.cfg.noise_std_type == "log" else self.std
        std = smooth_floor(raw, self.cfg.min_noise_std)
        return 0.5 * (std + std[self.action_mirror_index]) if hasattr(self, "action_mirror_index") else std

    def act(self, obs: Observation) -> Tensor:
        """Draw actions [..., A] for observation groups."""
        return self.update_distribution(obs).sample()

    def act_inference(self, obs: Observation) -> Tensor:
        """Return the actions [N, A] without exploration for observation groups."""
        return self.family.mode(self.actor_model(obs))

    def evaluate(
        self, obs: Observation, masks: Optional[ResetMasks] = None, state: HiddenState = None, advance: bool = True
    ) -> Tensor:
        """Return the value [..., 1] of observation groups; with ``advance=False`` the critic's memory stays as it
        is."""
        return self.value_normalizer(self.critic_model(obs, masks, state, advance))

    def evaluate_rollout(self, obs: Mapping[str, Tensor], values: Tensor) -> None:
        """Write the values [T, N, 1] of groups [T, N, ...], unless the critic has a memory: its values are those of the
        steps."""
        if self.critic_model.memory is not None:
            return
        if self.critic_model.image_encoders:  # step by step: features of all images would take much memory
            for t, row in enumerate(values):
                row.copy_(self.evaluate({name: group[t] for name, group in obs.items()}))
        else:
            values.copy_(self.evaluate(obs))

    # Recurrent states

    def reset(self, dones: Optional[Tensor] = None) -> None:
        """Zero the recurrent states of the environments marked in ``dones`` [N]; of all for None."""
        for memory in self.memories:
            if memory is not None:
                memory.reset(dones)

    def get_hidden_states(self) -> Tuple[HiddenState, HiddenState]:
        """Return the recurrent states of actor and critic; None for zeros, and without memory."""
        actor, critic = self.memories
        return None if actor is None else actor.hidden_states, None if critic is None else critic.hidden_states

    def current_states(self, num_envs: int) -> Tuple[HiddenState, HiddenState]:
        """Return the recurrent states of actor and critic as tensors, [L, N, H] each; None without memory."""
        actor, critic = self.memories
        return (
            None if actor is None else actor.current_state(num_envs),
            None if critic is None else critic.current_state(num_envs),
        )

    def set_hidden_states(self, hidden_states: Tuple[HiddenState, HiddenState]) -> None:
        """Set the recurrent states of actor and critic."""
        for memory, state in zip(self.memories, hidden_states):
            if memory is not None:
                memory.hidden_states = state

    # Statistics, weights and copies

    def observation_bounds(self, obs: Mapping[str, Tensor]) -> Dict[str, Tuple[Tensor, Tensor]]:
        """Return the lowest and highest values [D] of normalised observation groups [N, D] by name; an environment with
        others is broken."""
        bounds: Dict[str, Tuple[Tensor, Tensor]] = {}
        for model in (self.actor_model, self.critic_model):
            if isinstance(model.normalizer, RunningNorm):
                sizes = [obs[group].shape[-1] for group in model.vector_groups]
                low, high = (bound.split(sizes) for bound in model.normalizer.bounds())
                bounds.update(zip(model.vector_groups, zip(low, high)))
        return bounds

    def parameter_groups(self) -> Tuple[List[nn.Parameter], List[nn.Parameter]]:
        """Return the parameters of the actor and those of the critic."""
        groups: Tuple[List[nn.Parameter], List[nn.Parameter]] = ([], [])
        for name, parameter in self.named_parameters():
            groups[name.startswith(CRITIC_PARTS)].append(parameter)
        return groups

    def cache_weights(self) -> None:
        """Use the current weights for calls without gradients until :meth:`clear_cache`.

        Values that depend only on the weights, such as the averages of symmetric layers, are then computed once and not
        in each step of a rollout. Loading a state dict clears the cache; other changes of weights may have no effect.
        """
        self._cached_std = self.noise_std().detach() if self.family.shared_parameters else None
        for module in self.modules():
            if isinstance(module, (MLP, Memory)):
                module.cache_weights()

    def clear_cache(self) -> None:
        """Stop using cached weights."""
        self._cached_std = None
        for module in self.modules():
            if isinstance(module, (MLP, Memory)):
                module.clear_cache()

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        self.clear_cache()
        return super().load_state_dict(*args, **kwargs)

    def snapshot(self, memo: Optional[Dict[int, Any]] = None) -> ActorCritic:
        """Return a copy that shares nothing with this policy, with empty memories and in evaluation mode; ``memo`` are
        objects in place of others, by their id."""
        memories = [s for state in self.get_hidden_states() for s in as_states(state)]
        own = {id(self.distribution): self.distribution.detach(), **{id(s): s.detach() for s in memories}}
        policy = copy.deepcopy(self, {**(memo or {}), **own}).eval().requires_grad_(False)
        policy.clear_cache()
        policy.reset()
        return policy


class ActorCriticRecurrent(ActorCritic):
    """An :class:`ActorCritic` with a GRU or LSTM in front of the heads; see :class:`ActorCriticRecurrentConfig`."""

    config_class = ActorCriticRecurrentConfig


class SymmetricActorCritic(ActorCritic):
    """An :class:`ActorCritic` whose action for a mirrored robot is the mirror image of that for the robot, and whose
    value is the same; see :class:`SymmetricActorCriticConfig`."""

    config_class = SymmetricActorCriticConfig


class SymmetricActorCriticRecurrent(ActorCriticRecurrent, SymmetricActorCritic):
    """An :class:`ActorCriticRecurrent` whose action for a mirrored robot with a mirrored past is the mirror image of
    that for the robot; see :class:`SymmetricActorCriticRecurrentConfig`."""

    config_class = SymmetricActorCriticRecurrentConfig
