"""The policy as a robot runs it: a module of its own, on the CPU, with the normaliser inside."""

from __future__ import annotations

import copy
from typing import Tuple

from torch import Tensor, nn

from rsl_rl.modules.actor_critic import ActorCritic
from rsl_rl.modules.actor_critic_recurrent import ActorCriticRecurrent


class FeedForwardPolicy(nn.Module):
    """obs [1, D] -> actions [1, A]."""

    input_names = ("obs",)

    def __init__(self, policy: ActorCritic):
        super().__init__()
        self.normalizer = copy.deepcopy(policy.actor_obs_normalizer)
        self.actor = copy.deepcopy(policy.actor)

    def forward(self, obs: Tensor) -> Tensor:
        return self.actor(self.normalizer(obs))


class GRUPolicy(nn.Module):
    """obs [1, D], h_in [L, 1, H] -> actions [1, A], h_out; zeros start an episode."""

    input_names = ("obs", "h_in")

    def __init__(self, policy: ActorCritic):
        super().__init__()
        self.normalizer = copy.deepcopy(policy.actor_obs_normalizer)
        assert isinstance(policy, ActorCriticRecurrent)
        self.rnn = copy.deepcopy(policy.memory_a.rnn)
        self.actor = copy.deepcopy(policy.actor)

    def forward(self, obs: Tensor, h_in: Tensor) -> Tuple[Tensor, Tensor]:
        y, h_out = self.rnn(self.normalizer(obs).unsqueeze(0), h_in)
        return self.actor(y.squeeze(0)), h_out


class LSTMPolicy(GRUPolicy):
    """obs [1, D], h_in and c_in [L, 1, H] -> actions [1, A], h_out, c_out; zeros start an episode."""

    input_names = ("obs", "h_in", "c_in")

    def forward(self, obs: Tensor, h_in: Tensor, c_in: Tensor) -> Tuple[Tensor, Tensor, Tensor]:  # type: ignore[override]
        y, (h_out, c_out) = self.rnn(self.normalizer(obs).unsqueeze(0), (h_in, c_in))
        return self.actor(y.squeeze(0)), h_out, c_out


def policy_module(policy: ActorCritic) -> nn.Module:
    """Copy what a robot needs of a policy into a module of its kind, in evaluation mode, without gradients."""
    cls = FeedForwardPolicy
    if isinstance(policy, ActorCriticRecurrent):
        cls = GRUPolicy if isinstance(policy.memory_a.rnn, nn.GRU) else LSTMPolicy
    return cls(policy).cpu().eval().requires_grad_(False)
