"""Samples for one gradient step."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

import torch
from torch import Tensor

from rsl_rl.utils.trajectories import HiddenState, ResetMasks, split_and_pad_trajectories, trajectory_states


class LazyGroups(Mapping[str, Tensor]):
    """Observation groups that are computed from others when they are first read."""

    def __init__(self, source: Mapping[str, Tensor], function: Callable[[str, Tensor], Tensor]):
        self._source, self._function = source, function
        self._computed: Dict[str, Tensor] = {}

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._computed:
            self._computed[name] = self._function(name, self._source[name])
        return self._computed[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._source)

    def __len__(self) -> int:
        return len(self._source)


class MiniBatch:
    """Samples [B, ...], or for a policy with memory sequences [S, K*n, ...] of environments.

    ``groups`` are the observations by group. ``columns`` are all other data by name, each [B, size]: actions, values,
    advantages, returns, actions_log_prob, sample_mask, the parameters of the distribution that was sampled (shared ones
    are [size]), and columns of extensions. Sequences have ``masks``, the ``hidden_states`` of actor and critic before
    the first step, and the indices of the environments ``envs`` [n]. ``num_original`` is None, or the number of
    collected samples (of sequences K*n), if an extension has appended others.
    """

    def __init__(
        self,
        groups: Mapping[str, Tensor],
        columns: Dict[str, Tensor],
        masks: Optional[ResetMasks] = None,
        hidden_states: Tuple[HiddenState, HiddenState] = (None, None),
        num_original: Optional[int] = None,
        envs: Optional[Tensor] = None,
    ):
        self.groups, self.columns = groups, columns
        self.masks, self.hidden_states, self.num_original = masks, hidden_states, num_original
        self.envs = envs

    def replace(self, **changes: Any) -> MiniBatch:
        """Return a copy with other values of some attributes."""
        return MiniBatch(**{**vars(self), **changes})

    def with_columns(self, **columns: Tensor) -> MiniBatch:
        """Return a copy with other values of some columns."""
        return self.replace(columns={**self.columns, **columns})

    def __iter__(self) -> Iterator[Any]:
        """Unpack into the eleven items of rsl_rl 1: observations, critic observations, actions, values, advantages,
        returns, log-probabilities, means, standard deviations, hidden states of actor and critic, and masks.

        Of sequences, observations are padded trajectories [S, M, ...] with their masks [S, M] and first states.
        """
        observations, states, masks = [self.observations, self.critic_observations], self.hidden_states, None
        if self.masks is not None:
            dones = torch.cat((1.0 - self.masks.keep_state[1:], self.masks.keep_state[:1])).bool()
            padded = [split_and_pad_trajectories(group, dones) for group in observations]
            observations, masks = [trajectories for trajectories, _ in padded], padded[0][1]
            states = trajectory_states(states[0], dones), trajectory_states(states[1], dones)
        yield from observations
        yield from (self.actions, self.values, self.advantages, self.returns, self.old_actions_log_prob)
        yield from (self.old_mu, self.old_sigma.expand_as(self.old_mu), states, masks)

    def original(self, x: Tensor) -> Tensor:
        """Return the collected samples of x [..., B, size]."""
        return x if self.num_original is None or x.dim() < 2 else x.narrow(-2, 0, self.num_original)

    @property
    def observations(self) -> Tensor:
        """Group "policy" [B, D]."""
        return self.groups["policy"]

    @property
    def critic_observations(self) -> Tensor:
        """Group "critic" [B, C], or "policy" where there is none."""
        return self.groups["critic" if "critic" in self.groups else "policy"]

    @property
    def actions(self) -> Tensor:
        """Actions [B, A]."""
        return self.columns["actions"]

    @property
    def values(self) -> Tensor:
        """Values [B, 1] during the rollout."""
        return self.columns["values"]

    @property
    def advantages(self) -> Tensor:
        """Advantages [B, 1]."""
        return self.columns["advantages"]

    @property
    def returns(self) -> Tensor:
        """Returns [B, 1]."""
        return self.columns["returns"]

    @property
    def old_actions_log_prob(self) -> Tensor:
        """Log-probabilities [B, 1] of the actions during the rollout."""
        return self.columns["actions_log_prob"]

    @property
    def sample_mask(self) -> Tensor:
        """Weight [B, 1] of each sample in the mean: 1, or 0 for a masked sample."""
        return self.columns["sample_mask"]

    @property
    def old_mu(self) -> Tensor:
        """Mean [B, A] of the Gaussian during the rollout."""
        return self.columns["action_mean"]

    @property
    def old_sigma(self) -> Tensor:
        """Standard deviation [B, A] of the Gaussian during the rollout, or [A]."""
        return self.columns["action_std"]


def weighted_mean(x: Tensor, sample_mask: Tensor) -> Tensor:
    """Return the mean of x [..., 1] with a weight [..., 1] for each sample; 0 if all weights are 0."""
    return (x * sample_mask).sum() / sample_mask.sum().clamp(min=1.0)


def split_columns(joined: Tensor, names: List[str], sizes: List[int]) -> Dict[str, Tensor]:
    """Split a tensor [B, sum of sizes] into columns by name."""
    return dict(zip(names, torch.split(joined, sizes, dim=-1)))
