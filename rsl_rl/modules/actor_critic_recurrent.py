"""The policy and critic with memory."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Tuple

import torch
from torch import Tensor

from rsl_rl.config.policy import ActorCriticRecurrentConfig
from rsl_rl.modules.actor_critic import ActorCritic
from rsl_rl.modules.memory import Memory
from rsl_rl.utils.trajectories import Flow, HiddenState


class ActorCriticRecurrent(ActorCritic):
    """An :class:`ActorCritic` whose networks see their observations through a GRU or LSTM each.

    ``settings`` are the fields of :class:`ActorCriticRecurrentConfig`. Acting and evaluating one step advances the
    memories; mini-batches replay whole rollouts from the states they began with and leave them alone.
    """

    is_recurrent = True
    cfg: ActorCriticRecurrentConfig

    @staticmethod
    def _config(settings: Mapping[str, Any]) -> ActorCriticRecurrentConfig:
        return ActorCriticRecurrentConfig(**settings)

    def _make_networks(self, num_actor_features: int, num_critic_features: int, num_actions: int) -> None:
        cfg = self.cfg
        super()._make_networks(cfg.rnn_hidden_size, cfg.rnn_hidden_size, num_actions)
        self.memory_a = Memory(num_actor_features, cfg.rnn_type, cfg.rnn_num_layers, cfg.rnn_hidden_size)
        self.memory_c = Memory(num_critic_features, cfg.rnn_type, cfg.rnn_num_layers, cfg.rnn_hidden_size)

    def _actor_features(self, observations: Tensor, flow: Optional[Flow], hidden_states: HiddenState) -> Tensor:
        return _remember(self.memory_a, self.actor_obs_normalizer(observations), flow, hidden_states)

    def _critic_features(self, observations: Tensor, flow: Optional[Flow], hidden_states: HiddenState) -> Tensor:
        return _remember(self.memory_c, self.critic_obs_normalizer(observations), flow, hidden_states)

    def learn_in(self, dtype: torch.dtype) -> None:
        super().learn_in(dtype)
        self.memory_a.learning_dtype = self.memory_c.learning_dtype = dtype

    def peek_value(self, critic_observations: Tensor) -> Tensor:
        return self.critic(self.memory_c.peek(self.critic_obs_normalizer(critic_observations)))

    def reset(self, dones: Optional[Tensor] = None) -> None:
        self.memory_a.reset(dones)
        self.memory_c.reset(dones)

    def get_hidden_states(self) -> Tuple[HiddenState, HiddenState]:
        return self.memory_a.hidden_states, self.memory_c.hidden_states

    def zero_hidden_states(self, num_envs: int) -> Tuple[HiddenState, HiddenState]:
        return self.memory_a.zero_states(num_envs), self.memory_c.zero_states(num_envs)

    def set_hidden_states(self, hidden_states: Tuple[HiddenState, HiddenState]) -> None:
        self.memory_a.hidden_states, self.memory_c.hidden_states = hidden_states


def _remember(memory: Memory, observations: Tensor, flow: Optional[Flow], state: HiddenState) -> Tensor:
    return memory.step(observations) if flow is None else memory.sequence(observations, flow, state)
