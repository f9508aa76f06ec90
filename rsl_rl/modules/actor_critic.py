"""The feed-forward policy and its critic."""

from __future__ import annotations

import copy
from typing import Any, Mapping, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor, nn

from rsl_rl.config.policy import ActorCriticConfig
from rsl_rl.modules.gaussian import DiagonalGaussian, smooth_floor
from rsl_rl.modules.memory import Memory
from rsl_rl.modules.mlp import MLP, mlp
from rsl_rl.modules.normalizer import RunningNorm
from rsl_rl.utils.trajectories import Flow, HiddenState, as_states

Observation = Union[Tensor, Mapping[str, Tensor]]
"""One tensor [N, D], or named groups of them."""


class ActorCritic(nn.Module):
    """Map observations to a diagonal Gaussian over actions, and to a value.

    ``settings`` are the fields of :class:`ActorCriticConfig`. Actor and critic are separate networks; the standard
    deviation of the actions is one learned number per action, the same in every state.
    """

    is_recurrent = False
    state_dependent_std = False  # the deviations of the actions are the same in every state, and stored once a rollout
    _held_std: Optional[Tensor] = None

    def __init__(self, num_actor_obs: int, num_critic_obs: int, num_actions: int, **settings: Any):
        super().__init__()
        self.cfg = cfg = self._config(settings)
        self._make_networks(num_actor_obs, num_critic_obs, num_actions)
        norms = cfg.actor_obs_normalization, cfg.critic_obs_normalization
        self.actor_obs_normalizer = RunningNorm(num_actor_obs) if norms[0] else nn.Identity()
        self.critic_obs_normalizer = RunningNorm(num_critic_obs) if norms[1] else nn.Identity()
        noise = torch.full((num_actions,), float(cfg.init_noise_std))
        if cfg.noise_std_type == "log":
            self.log_std = nn.Parameter(noise.log())
        else:
            self.std = nn.Parameter(noise)
        self.distribution = DiagonalGaussian(torch.zeros(num_actions), noise)

    @staticmethod
    def _config(settings: Mapping[str, Any]) -> ActorCriticConfig:
        return ActorCriticConfig(**settings)

    def _make_networks(self, num_actor_features: int, num_critic_features: int, num_actions: int) -> None:
        cfg = self.cfg
        self.actor = mlp(num_actor_features, cfg.actor_hidden_dims, num_actions, cfg.activation)
        self.critic = mlp(num_critic_features, cfg.critic_hidden_dims, 1, cfg.activation)
        if cfg.initialization == "orthogonal":
            # Gains as in Andrychowicz et al. 2021, https://arxiv.org/abs/2006.05990: a small last layer of the actor.
            self.init_weights(self.actor, [2**0.5] * len(cfg.actor_hidden_dims) + [0.01])
            self.init_weights(self.critic, [2**0.5] * len(cfg.critic_hidden_dims) + [1.0])

    @staticmethod
    def init_weights(sequential: nn.Sequential, scales: Sequence[float]) -> None:
        """Make each linear layer's weight orthogonal with the gain of its place in ``scales``, and its bias zero."""
        linears = [module for module in sequential if isinstance(module, nn.Linear)]
        if len(linears) != len(scales):
            raise ValueError(f"got {len(scales)} scales for {len(linears)} linear layers; give one each")
        for linear, gain in zip(linears, scales):
            nn.init.orthogonal_(linear.weight, gain=gain)
            nn.init.zeros_(linear.bias)

    # What the networks read

    def actor_obs(self, obs: Observation) -> Tensor:
        """Pick the actor's groups out of an observation: float32 [N, D]; a tensor is taken as the whole."""
        return _read(obs, self.cfg.actor_groups)

    def critic_obs(self, obs: Observation) -> Tensor:
        """Pick the critic's groups out of an observation: float32 [N, C]; a tensor is taken as the whole."""
        return _read(obs, self.cfg.critic_groups or self.cfg.actor_groups)

    def update_normalization(self, actor_obs: Tensor, critic_obs: Tensor, weights: Optional[Tensor] = None) -> None:
        """Take a rollout [T, N, ...] into the running statistics, each step with its weight [T, N, 1] or all alike.

        Call it between an update and the next rollout.
        """
        for normalizer, obs in ((self.actor_obs_normalizer, actor_obs), (self.critic_obs_normalizer, critic_obs)):
            if isinstance(normalizer, RunningNorm):
                normalizer.update(obs, weights)

    def learn_in(self, dtype: torch.dtype) -> None:
        """Have the networks compute in another type, such as bfloat16, where gradients are wanted."""
        self.actor.learning_dtype = self.critic.learning_dtype = dtype

    # Weights that stay

    def hold(self) -> None:
        """Without gradients, compute with the weights as they are now until ``release``.

        What follows from weights alone, such as the averages of symmetric networks, is then computed once and not at
        each step of a rollout. Loading a state dict releases; other changes of weights may be noticed or not.
        """
        self._held_std = self.noise_std().detach()
        for module in self.modules():
            if isinstance(module, (MLP, Memory)):
                module.hold()

    def release(self) -> None:
        """Compute with the weights as they are at each call."""
        self._held_std = None
        for module in self.modules():
            if isinstance(module, (MLP, Memory)):
                module.release()

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        self.release()
        return super().load_state_dict(*args, **kwargs)

    # The policy

    def noise_std(self) -> Tensor:
        """Return the standard deviation of the actions [A], always above ``min_noise_std``."""
        raw = self.log_std.exp() if self.cfg.noise_std_type == "log" else self.std
        return smooth_floor(raw, self.cfg.min_noise_std)

    def update_distribution(
        self, observations: Tensor, flow: Optional[Flow] = None, hidden_states: HiddenState = None
    ) -> None:
        """Compute the distribution over actions for observations [..., D].

        A recurrent mini-batch [T, n, D] comes with its ``flow`` and the ``hidden_states`` before its first step; they
        are None without memory, and while acting.
        """
        mean = self.actor(self._actor_features(observations, flow, hidden_states))
        stddev = self._held_std
        if stddev is None or torch.is_grad_enabled():
            stddev = self.noise_std()
        self.distribution = DiagonalGaussian(mean, stddev)

    def act(self, observations: Tensor, flow: Optional[Flow] = None, hidden_states: HiddenState = None) -> Tensor:
        """Draw actions [..., A] for observations [..., D]."""
        self.update_distribution(observations, flow, hidden_states)
        return self.distribution.sample()

    def act_inference(self, observations: Observation) -> Tensor:
        """Return the mean action [N, A] for an observation tensor or groups."""
        return self.actor(self._actor_features(self.actor_obs(observations), None, None))

    def evaluate(
        self, critic_observations: Tensor, flow: Optional[Flow] = None, hidden_states: HiddenState = None
    ) -> Tensor:
        """Return the value [..., 1] of critic observations [..., C]."""
        return self.critic(self._critic_features(critic_observations, flow, hidden_states))

    def peek_value(self, critic_observations: Tensor) -> Tensor:
        """Return the value [N, 1] of observations that may never be acted on: a memory, if any, stays as it is."""
        return self.evaluate(critic_observations)

    def _actor_features(self, observations: Tensor, flow: Optional[Flow], hidden_states: HiddenState) -> Tensor:
        return self.actor_obs_normalizer(observations)

    def _critic_features(self, observations: Tensor, flow: Optional[Flow], hidden_states: HiddenState) -> Tensor:
        return self.critic_obs_normalizer(observations)

    def get_actions_log_prob(self, actions: Tensor) -> Tensor:
        """Return the log density [...] of actions [..., A] under the current distribution."""
        return self.distribution.log_prob(actions).sum(dim=-1)

    @property
    def action_mean(self) -> Tensor:
        """Mean of the current distribution [..., A]."""
        return self.distribution.mean

    @property
    def action_std(self) -> Tensor:
        """Standard deviation of the current distribution [..., A]."""
        return self.distribution.stddev.expand_as(self.distribution.mean)

    @property
    def entropy(self) -> Tensor:
        """Entropy of the current distribution [...] in nats."""
        return self.distribution.entropy().sum(dim=-1).expand(self.distribution.mean.shape[:-1])

    # Memory: none here

    def reset(self, dones: Optional[Tensor] = None) -> None:
        """Forget the past of the environments marked in ``dones`` [N] (all: None); a policy without memory has none."""

    def get_hidden_states(self) -> Tuple[HiddenState, HiddenState]:
        """Return the memories of actor and critic; (None, None) without memory."""
        return None, None

    def zero_hidden_states(self, num_envs: int) -> Tuple[HiddenState, HiddenState]:
        """Return the memories with which episodes start; (None, None) without memory."""
        return None, None

    def set_hidden_states(self, hidden_states: Tuple[HiddenState, HiddenState]) -> None:
        """Take over the memories of actor and critic; without memory there is nothing to take."""

    def snapshot(self) -> ActorCritic:
        """Return a copy that shares nothing with this policy and remembers nothing, in evaluation mode."""
        without_graph = DiagonalGaussian(self.distribution.mean.detach(), self.distribution.stddev.detach())
        memories = [s for state in self.get_hidden_states() for s in as_states(state)]
        memo = {id(self.distribution): without_graph, **{id(s): s.detach() for s in memories}}
        twin = copy.deepcopy(self, memo).eval().requires_grad_(False)
        twin.release()
        twin.reset()
        return twin


def _read(obs: Observation, groups: Sequence[str]) -> Tensor:
    if isinstance(obs, Tensor):
        return obs.float()
    return (obs[groups[0]] if len(groups) == 1 else torch.cat([obs[group] for group in groups], dim=-1)).float()
