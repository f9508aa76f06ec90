"""Policies with an actor and a critic, with the names of rsl_rl."""

from __future__ import annotations

import copy
from typing import Any, ClassVar, List, Mapping, Optional, Sequence, Tuple, Type

import torch
from torch import Tensor, nn

from rsl_rl.config.policy import ActorCriticConfig, SymmetricActorCriticConfig
from rsl_rl.modules.distribution_families import distribution_family
from rsl_rl.modules.distributions import Distribution, smooth_floor
from rsl_rl.modules.memory import Memory
from rsl_rl.modules.mlp import MLP, get_activation  # noqa: F401  # rsl_rl 1 to 3 have it here too
from rsl_rl.modules.model import Masks, Model, Observation
from rsl_rl.modules.networks import CRITIC_PARTS, build_networks, init_orthogonal
from rsl_rl.modules.normalizer import RunningNorm
from rsl_rl.modules.value_normalizer import NoValueNormalizer, ValueNormalizer
from rsl_rl.utils.trajectories import HiddenState, as_states


class ActorCritic(nn.Module):
    """An actor, which maps observations to a distribution over actions, and a critic, which maps them to a value.

    ``settings`` are the fields of the class's config, here :class:`ActorCriticConfig`; ``num_actor_obs`` and
    ``num_critic_obs`` are the sizes of the concatenated vector groups, ``image_shapes`` those of image groups by name.
    Actor and critic are two :class:`Model` that share no weights. In the state dict their parts have rsl_rl's names:
    ``actor`` and ``critic`` are the heads, ``memory_a`` and ``memory_c`` the memories.
    """

    config_class: ClassVar[Type[ActorCriticConfig]] = ActorCriticConfig
    is_recurrent = False
    actor: MLP
    critic: MLP
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
        self.value_normalizer = ValueNormalizer(self.critic) if cfg.value_normalization else NoValueNormalizer()
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
        memory_a, memory_c = networks.get("memory_a"), networks.get("memory_c")
        self._models = (  # a tuple, so that the parts are registered once, under rsl_rl's names
            Model(cfg.actor_groups, self.actor_obs_normalizer, encoders[0], memory_a, self.actor),
            Model(critic_groups, self.critic_obs_normalizer, encoders[1], memory_c, self.critic),
        )
        self.distribution: Distribution = self.family(torch.zeros(self.family.num_outputs), noise)

    @property
    def actor_model(self) -> Model:
        """Network from observation groups to the parameters of the distribution."""
        return self._models[0]

    @property
    def critic_model(self) -> Model:
        """Network from observation groups to the value."""
        return self._models[1]

    @staticmethod
    def init_weights(sequential: nn.Sequential, scales: Sequence[float]) -> None:
        """Make each linear layer's weight orthogonal with the gain of its place in ``scales``, and its bias zero."""
        init_orthogonal(sequential, scales)

    def actor_obs(self, obs: Observation) -> Observation:
        """Return the input of the actor from observation groups; a tensor is the input itself."""
        return self.actor_model.read(obs)

    def critic_obs(self, obs: Observation) -> Observation:
        """Return the input of the critic from observation groups; a tensor is the input itself."""
        return self.critic_model.read(obs)

    def update_normalization(
        self, actor_obs: Observation, critic_obs: Observation, sample_mask: Optional[Tensor] = None
    ) -> None:
        """Merge a rollout [T, N, ...] into the running statistics; ``sample_mask`` [T, N, 1] is each sample's weight.

        Call it between an update and the next rollout.
        """
        for model, obs in zip(self._models, (actor_obs, critic_obs)):
            model.update_normalization(obs, sample_mask)

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

    def snapshot(self) -> ActorCritic:
        """Return a copy that shares nothing with this policy, with empty memories and in evaluation mode."""
        memories = [s for state in self.get_hidden_states() for s in as_states(state)]
        memo = {id(self.distribution): self.distribution.detach(), **{id(s): s.detach() for s in memories}}
        policy = copy.deepcopy(self, memo).eval().requires_grad_(False)
        policy.clear_cache()
        policy.reset()
        return policy

    def noise_std(self) -> Tensor:
        """Return the standard deviation of the actions [A], or that of the current distribution [..., A] where it
        depends on the state."""
        if not self.family.shared_parameters:
            return self.distribution.std
        raw = self.log_std.exp() if self.cfg.noise_std_type == "log" else self.std
        std = smooth_floor(raw, self.cfg.min_noise_std)
        return 0.5 * (std + std[self.action_mirror_index]) if hasattr(self, "action_mirror_index") else std

    def update_distribution(
        self, observations: Observation, masks: Masks = None, hidden_states: HiddenState = None
    ) -> None:
        """Compute the distribution over actions for what :meth:`actor_obs` returned.

        A recurrent mini-batch [T, n, ...] comes with its ``masks`` and the ``hidden_states`` [L, n, H] before its first
        step; both are None without memory, and while acting.
        """
        outputs = self.actor_model(observations, masks, hidden_states)
        std = self._cached_std
        if self.family.shared_parameters and (std is None or torch.is_grad_enabled()):
            std = self.noise_std()
        self.distribution = self.family(outputs, std)

    def act(self, observations: Observation, masks: Masks = None, hidden_states: HiddenState = None) -> Tensor:
        """Draw actions [..., A] for what :meth:`actor_obs` returned."""
        self.update_distribution(observations, masks, hidden_states)
        return self.distribution.sample()

    def act_inference(self, observations: Observation) -> Tensor:
        """Return the actions [N, A] without exploration for an observation tensor or groups."""
        return self.family.mode(self.actor_model(self.actor_obs(observations)))

    def evaluate(
        self, critic_observations: Observation, masks: Masks = None, hidden_states: HiddenState = None
    ) -> Tensor:
        """Return the value [..., 1] for what :meth:`critic_obs` returned."""
        return self.value_normalizer(self.critic_model(critic_observations, masks, hidden_states))

    def evaluate_step(self, obs: Mapping[str, Tensor]) -> Optional[Tensor]:
        """Return the value [N, 1] of groups while acting where the critic has a memory; None where it has none, and
        :meth:`evaluate_rollout` computes all values of a rollout together."""
        return None if self.critic_model.memory is None else self.evaluate(self.critic_obs(obs))

    def evaluate_rollout(self, obs: Mapping[str, Tensor], values: Tensor) -> None:
        """Write the values [T, N, 1] of groups [T, N, ...] that :meth:`evaluate_step` did not compute."""
        if self.critic_model.memory is not None:
            return
        if self.critic_model.image_encoders:  # step by step: features of all images would take much memory
            for t, row in enumerate(values):
                row.copy_(self.evaluate(self.critic_obs({name: group[t] for name, group in obs.items()})))
        else:
            values.copy_(self.evaluate(self.critic_obs(obs)))

    def evaluate_stateless(self, critic_observations: Observation) -> Tensor:
        """Return the value [N, 1] without changing the critic's memory."""
        return self.value_normalizer(self.critic_model.forward_stateless(critic_observations))

    def get_actions_log_prob(self, actions: Tensor) -> Tensor:
        """Return the log density [...] of actions [..., A] under the current distribution."""
        return self.distribution.log_prob(actions).squeeze(-1)

    @property
    def action_mean(self) -> Tensor:
        """Mean of the current distribution [..., A]."""
        return self.distribution.mode

    @property
    def action_std(self) -> Tensor:
        """Standard deviation of the current distribution [..., A]."""
        return self.distribution.std.expand_as(self.distribution.mode)

    @property
    def entropy(self) -> Tensor:
        """Entropy of the current distribution [...] in nats."""
        return self.distribution.entropy().squeeze(-1).expand(self.distribution.mode.shape[:-1])

    @property
    def memories(self) -> Tuple[Optional[Memory], Optional[Memory]]:
        """Memories of actor and critic."""
        return self.actor_model.memory, self.critic_model.memory

    def reset(self, dones: Optional[Tensor] = None) -> None:
        """Zero the recurrent states of the environments marked in ``dones`` [N]; of all for None."""
        for memory in self.memories:
            if memory is not None:
                memory.reset(dones)

    def get_hidden_states(self) -> Tuple[HiddenState, HiddenState]:
        """Return the recurrent states of actor and critic; None for zeros, and without memory."""
        actor, critic = (None if memory is None else memory.hidden_states for memory in self.memories)
        return actor, critic

    def current_states(self, num_envs: int) -> Tuple[HiddenState, HiddenState]:
        """Return the recurrent states of actor and critic as tensors, [L, N, H] each; None without memory."""
        actor, critic = (None if memory is None else memory.current_state(num_envs) for memory in self.memories)
        return actor, critic

    def set_hidden_states(self, hidden_states: Tuple[HiddenState, HiddenState]) -> None:
        """Set the recurrent states of actor and critic."""
        for memory, state in zip(self.memories, hidden_states):
            if memory is not None:
                memory.hidden_states = state
