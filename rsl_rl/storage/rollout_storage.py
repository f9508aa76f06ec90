"""The rollout that PPO learns from, in tensors allocated once.

Letters used throughout the library: T steps of a rollout, N environments, D actor observation, C critic observation, A
actions, B rows of a flat mini-batch, n environments of a recurrent one, K chunks that each of them is cut into, S steps
of a chunk, L layers and H hidden size of a memory. Unless the rollout is unrolled into chunks, K is 1 and S is T.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Iterator, NamedTuple, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from rsl_rl.storage.returns import gae
from rsl_rl.storage.unrolling import Unrolling, plan_unrolling, unroll
from rsl_rl.utils.trajectories import Flow, HiddenState, as_states, trajectory_starts


class MiniBatch(NamedTuple):
    """Samples for one gradient step: rows [B, ...], or, for a policy with memory, sequences [S, K*n, ...] of whole
    environments, with what passes from step to step and the memories before the first."""

    observations: Tensor  # [B, D]
    critic_observations: Tensor  # [B, C]
    actions: Tensor  # [B, A]
    values: Tensor  # [B, 1]
    advantages: Tensor  # [B, 1]
    returns: Tensor  # [B, 1]
    old_actions_log_prob: Tensor  # [B, 1]
    weights: Tensor  # [B, 1] of each sample in the mean: 1, or 0 where there is nothing to learn from it
    old_mu: Tensor  # [B, A]
    old_sigma: Tensor  # [B, A], or [A] where all samples have the same
    flow: Optional[Flow] = None
    hidden_states: Tuple[HiddenState, HiddenState] = (None, None)  # of actor and critic


_UNSET = torch.empty(0)
"""What a transition holds before a field is set."""

_OPTIONAL = ("time_outs", "weights")
"""Fields that a transition may leave out; ``clear`` has set them."""


class RolloutStorage:
    """T steps of N environments, written row by row and read as mini-batches.

    Scalars are stored as [T, N, 1]. The rows are written when the policy acts, before the environment moves on, so that
    an environment may refresh its observation buffer in place. Without a ``privileged_obs_shape`` the critic reads the
    actor's observations, which are then stored once; with ``one_sigma`` the standard deviations are the same for all of
    a rollout, and stored once too. Recurrent mini-batches are cut as ``unrolling`` says; by default each environment's
    rollout is one sequence.
    """

    @dataclass
    class Transition:
        """One step of all environments: views of a row of the storage, or tensors of your own to be copied into it."""

        observations: Tensor = _UNSET  # [N, D]
        critic_observations: Tensor = _UNSET  # [N, C]
        actions: Tensor = _UNSET  # [N, A]
        rewards: Tensor = _UNSET  # [N, 1]
        dones: Tensor = _UNSET  # [N, 1] bool
        time_outs: Tensor = _UNSET  # [N, 1] bool; done by the clock, and the reward does not yet say so
        weights: Tensor = _UNSET  # [N, 1] 1, or 0 where the environment broke and nobody may learn from the step
        values: Tensor = _UNSET  # [N, 1]
        actions_log_prob: Tensor = _UNSET  # [N, 1]
        action_mean: Tensor = _UNSET  # [N, A]
        action_sigma: Tensor = _UNSET  # [N, A], or [A] of a storage with one_sigma
        hidden_states: Tuple[HiddenState, HiddenState] = (None, None)  # before this step, of actor and critic

        def clear(self) -> None:
            """Let go of every tensor."""
            self.__init__()

    def __init__(
        self,
        num_envs: int,
        num_transitions_per_env: int,
        obs_shape: Sequence[int],
        privileged_obs_shape: Optional[Sequence[int]],
        actions_shape: Sequence[int],
        device: Union[str, torch.device] = "cpu",
        unrolling: Optional[Unrolling] = None,
        one_sigma: bool = False,
    ):
        self.num_envs = num_envs
        self.num_transitions_per_env = num_transitions_per_env
        self.device = torch.device(device)

        def rows(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(num_transitions_per_env, num_envs, *shape, dtype=dtype, device=self.device)

        self.observations = rows(*obs_shape)
        self.privileged_observations = rows(*privileged_obs_shape) if privileged_obs_shape is not None else None
        self.actions = rows(*actions_shape)
        self.rewards = rows(1)
        self.dones = rows(1, dtype=torch.bool)
        self.time_outs = rows(1, dtype=torch.bool)
        self.weights = rows(1).fill_(1.0)
        self.values = rows(1)
        self.actions_log_prob = rows(1)
        self.mu = rows(*actions_shape)
        self._one_sigma = torch.zeros(*actions_shape, device=self.device) if one_sigma else None
        self.sigma = rows(*actions_shape) if self._one_sigma is None else self._one_sigma.expand_as(self.mu)
        self.unexpanded_sigma = self.sigma if self._one_sigma is None else self._one_sigma  # [T, N, A] or [A]
        self.returns = rows(1)
        self.advantages = rows(1)
        self._samples = torch.empty(0, device=self.device)  # [T*N, sizes of the small columns], once somebody shuffles
        whole = unrolling or plan_unrolling(num_transitions_per_env, num_transitions_per_env)
        self.unrolling = whole.to(self.device)
        self.saved_hidden_states_a: Tuple[Tensor, ...] = ()  # where chunks begin, each [K, L, N, H]
        self.saved_hidden_states_c: Tuple[Tensor, ...] = ()
        self.step = 0
        self._columns: Dict[str, Tensor] = {
            "observations": self.observations,
            "actions": self.actions,
            "rewards": self.rewards,
            "dones": self.dones,
            "time_outs": self.time_outs,
            "weights": self.weights,
            "values": self.values,
            "actions_log_prob": self.actions_log_prob,
            "action_mean": self.mu,
        }
        if self._one_sigma is None:
            self._columns["action_sigma"] = self.sigma
        if self.privileged_observations is not None:
            self._columns["critic_observations"] = self.privileged_observations
        self._rows = [self._views(step) for step in range(num_transitions_per_env)]

    @property
    def critic_observations(self) -> Tensor:
        """What the critic reads [T, N, C]: the privileged observations, or the actor's where there are none."""
        return self.observations if self.privileged_observations is None else self.privileged_observations

    def _views(self, step: int) -> RolloutStorage.Transition:
        """Return the views of one row, which are the same in every rollout."""
        transition = self.Transition(critic_observations=self.critic_observations[step])
        if self._one_sigma is not None:
            transition.action_sigma = self._one_sigma
        for name, column in self._columns.items():
            setattr(transition, name, column[step])
        return transition

    # Writing

    def row(self) -> RolloutStorage.Transition:
        """Return the next row as a transition of views: what is copied into them is stored."""
        self._require_room()
        return self.Transition(**vars(self._rows[self.step]))  # a quick shallow copy

    def add_transitions(self, transition: RolloutStorage.Transition) -> None:
        """Finish the next row with ``transition`` and move on; views handed out by :meth:`row` are in place already.

        A transition of your own may leave out ``time_outs``, of which there are none then, and ``weights``.
        """
        self._require_room()
        for name in self._columns:
            value, row = getattr(transition, name), getattr(self._rows[self.step], name)
            if value is row:
                continue
            if value.numel() > 0:
                row.copy_(value.reshape(row.shape))
            elif name not in _OPTIONAL:
                raise ValueError(f"the transition has no {name}; set every field before add_transitions")
        if self._one_sigma is not None and transition.action_sigma is not self._one_sigma:
            self._one_sigma.copy_(transition.action_sigma.reshape(-1, len(self._one_sigma))[0])
        self._save_hidden_states(transition.hidden_states)
        self.step += 1

    def _save_hidden_states(self, hidden_states: Tuple[HiddenState, HiddenState]) -> None:
        """Keep the memories where a chunk begins; every trajectory that begins within it does so after a done, from
        zeros."""
        for chunk, begin in enumerate(self.unrolling.begins):
            if begin == self.step:
                self.saved_hidden_states_a = self._saved(self.saved_hidden_states_a, hidden_states[0], chunk)
                self.saved_hidden_states_c = self._saved(self.saved_hidden_states_c, hidden_states[1], chunk)

    def _saved(self, saved: Tuple[Tensor, ...], state: HiddenState, chunk: int) -> Tuple[Tensor, ...]:
        """Write a network's memory [L, N, H] to its place for a chunk, in tensors made at the first one."""
        states = as_states(state)
        if states and not saved:
            saved = tuple(s.new_zeros(len(self.unrolling.begins), *s.shape) for s in states)
        for i, place in enumerate(saved):
            if states:
                place[chunk].copy_(states[i])
            else:
                place[chunk].zero_()
        return saved

    def _require_room(self) -> None:
        if self.step >= self.num_transitions_per_env:
            raise OverflowError(f"the rollout already holds {self.step} steps; call clear() before the next one")

    def clear(self) -> None:
        """Start the next rollout at the first row; until told otherwise, nothing in it times out and all has weight."""
        self.step = 0
        self.time_outs.zero_()
        self.weights.fill_(1.0)

    # Reading

    def compute_returns(self, last_values: Tensor, gamma: float, lam: float) -> None:
        """Fill returns, and advantages scaled to zero mean and unit deviation; ``last_values`` [N, 1] follow the last
        row.

        A step without weight, which must be done, passes on what the critic expected of it: the steps before are told
        neither of a failure nor of a success.
        """
        rewards = torch.where(self.weights > 0, self.rewards, self.values)
        advantages = gae(rewards, self.values, last_values, self.dones, gamma, lam)
        torch.add(advantages, self.values, out=self.returns)
        count = self.weights.sum()
        mean = torch.dot(advantages.flatten(), self.weights.flatten()) / count.clamp(min=1)
        centered = torch.sub(advantages, mean, out=self.advantages).mul_(self.weights)
        std = torch.linalg.vector_norm(centered) / (count - 1).clamp(min=1).sqrt()
        centered.div_(std + 1e-8)

    def get_statistics(self) -> Tuple[Tensor, Tensor]:
        """Return the mean length [steps] of the episodes, or parts of them, in the rollout, and its mean reward per
        step."""
        num_trajectories = trajectory_starts(self.dones).sum()
        return self.dones.numel() / num_trajectories, self.rewards.mean()

    def mini_batch_generator(self, num_mini_batches: int, num_epochs: int = 8) -> Iterator[MiniBatch]:
        """Yield flat mini-batches of shuffled steps, every step once per epoch."""
        for steps in self.shuffled_steps(num_mini_batches, num_epochs):
            yield self.rows(steps)

    def reccurent_mini_batch_generator(self, num_mini_batches: int, num_epochs: int = 8) -> Iterator[MiniBatch]:
        """Yield mini-batches of shuffled whole environments, every environment once per epoch."""
        for envs in self.shuffled_envs(num_mini_batches, num_epochs):
            yield self.sequences(envs)

    def shuffled_steps(self, num_mini_batches: int, num_epochs: int) -> Iterator[Tensor]:
        """Yield the indices of the steps of each mini-batch, for :meth:`rows`."""
        self._put_side_by_side()
        return self._shuffled(self.num_envs * self.num_transitions_per_env, num_mini_batches, num_epochs)

    def _put_side_by_side(self) -> None:
        """Copy the small columns into one, so that a step is gathered from one place and not from seven."""
        columns = [column.flatten(0, 1) for column in self._small_columns()]
        if len(self._samples) == 0:
            self._samples = torch.cat(columns, dim=1)
        else:
            torch.cat(columns, dim=1, out=self._samples)

    def shuffled_envs(self, num_mini_batches: int, num_epochs: int) -> Iterator[Tensor]:
        """Yield the indices of the environments of each mini-batch, for :meth:`sequences`."""
        if num_mini_batches > self.num_envs:
            raise ValueError(
                f"num_mini_batches={num_mini_batches} exceeds num_envs={self.num_envs}: recurrent mini-batches are "
                f"sets of whole environments, so take at most {self.num_envs}"
            )
        return self._shuffled(self.num_envs, num_mini_batches, num_epochs)

    def _shuffled(self, count: int, num_mini_batches: int, num_epochs: int) -> Iterator[Tensor]:
        for _ in range(num_epochs):
            yield from torch.randperm(count, device=self.device).tensor_split(num_mini_batches)

    def total_weight(self, steps: Tensor) -> Tensor:
        """Return the sum of the weights of the steps with these indices [B]."""
        return self.weights.flatten().index_select(0, steps).sum()

    def rows(self, steps: Tensor) -> MiniBatch:
        """Gather the steps with these indices [B], counted row by row, as they were when ``shuffled_steps`` began."""
        samples = self._samples.index_select(0, steps)
        parts = samples.split([column.shape[-1] for column in self._small_columns()], dim=1)
        observations = self.observations.flatten(0, 1).index_select(0, steps)
        privileged = self.privileged_observations
        critic_observations = observations if privileged is None else privileged.flatten(0, 1).index_select(0, steps)
        return self._mini_batch(observations, critic_observations, *parts)

    def sequences(self, envs: Tensor) -> MiniBatch:
        """Gather the chunks of the environments with these indices [n]."""
        plan = self.unrolling

        def of_each_env(x: Tensor) -> Tensor:  # [S, K] -> [S, K*n]
            return x.unsqueeze(-1).expand(*x.shape, len(envs)).flatten(1, 2)

        def first(saved: Tuple[Tensor, ...]) -> Tuple[Tensor, ...]:  # [K, L, N, H] -> [L, K*n, H]
            return tuple(s[:, :, envs].transpose(0, 1).flatten(1, 2) for s in saved)

        flow = Flow.of_dones(unroll(self.dones.squeeze(-1), plan, envs))
        observations = unroll(self.observations, plan, envs)
        privileged = self.privileged_observations
        critic_observations = observations if privileged is None else unroll(privileged, plan, envs)
        parts = (unroll(column, plan, envs) for column in self._small_columns())
        batch = self._mini_batch(observations, critic_observations, *parts)
        return batch._replace(
            weights=batch.weights * of_each_env(plan.learned).unsqueeze(-1),
            flow=Flow(flow.keep, flow.carry * of_each_env(~plan.cut)),
            hidden_states=(first(self.saved_hidden_states_a), first(self.saved_hidden_states_c)),
        )

    def _small_columns(self) -> Tuple[Tensor, ...]:
        """Return what a sample has beside observations, in the order of MiniBatch's fields."""
        columns = (
            self.actions,
            self.values,
            self.advantages,
            self.returns,
            self.actions_log_prob,
            self.weights,
            self.mu,
        )
        return columns if self._one_sigma is not None else (*columns, self.sigma)

    def _mini_batch(self, *parts: Tensor) -> MiniBatch:
        """Name the observations and small columns of some samples."""
        if self._one_sigma is not None:
            parts = (*parts, self._one_sigma)
        return MiniBatch._make((*parts, None, (None, None)))
