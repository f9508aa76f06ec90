"""Storage of a rollout, in tensors that are allocated once.

Letters used throughout the library: T steps of a rollout, N environments, D actor observation, C critic observation, A
actions, B rows of a flat mini-batch, n environments of a recurrent mini-batch, K chunks of each of them, S steps of a
chunk, L layers and H hidden size of a memory. Without chunks, K is 1 and S is T.
"""

from __future__ import annotations

from typing import Dict, Iterator, Mapping, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from rsl_rl.storage.batching import SequenceBatches, StepBatches
from rsl_rl.storage.chunking import ChunkPlan, plan_chunks
from rsl_rl.storage.columns import COMPUTED, Column, Groups, vector_group_specs
from rsl_rl.storage.mini_batch import MiniBatch
from rsl_rl.storage.returns import gae
from rsl_rl.storage.transition import OPTIONAL, Transition
from rsl_rl.utils.trajectories import HiddenState, as_states, trajectory_starts


class RolloutStorage:
    """T steps of N environments, written step by step and read as mini-batches.

    ``obs_shape`` is the shape of the group "policy", ``privileged_obs_shape`` that of the group "critic" or None; or
    ``obs_shape`` is a mapping from the names of all groups to their :class:`GroupSpec`. ``columns`` are stored in
    addition to observations, actions, rewards, dones and values; by default the mean and standard deviation of a
    Gaussian. A column is stored as [T, N, size].

    A step is written when the policy acts, before the environment steps, so that an environment may refresh its
    observation buffer in place. With ``sequences``, mini-batches consist of whole environments, split by ``plan``. With
    ``extra_step`` there is memory for T + 1 steps, which ``RolloutBuffer`` uses; the rollout has T.
    """

    Transition = Transition

    def __init__(
        self,
        num_envs: int,
        num_transitions_per_env: int,
        obs_shape: Union[Sequence[int], Groups],
        privileged_obs_shape: Optional[Sequence[int]],
        actions_shape: Sequence[int],
        device: Union[str, torch.device] = "cpu",
        plan: Optional[ChunkPlan] = None,
        columns: Optional[Mapping[str, Column]] = None,
        sequences: bool = False,
        extra_step: bool = False,
    ):
        self.num_envs = num_envs
        self.num_transitions_per_env = num_transitions_per_env
        self.device = torch.device(device)
        self._num_rows = num_transitions_per_env + extra_step
        specs = obs_shape if isinstance(obs_shape, Mapping) else vector_group_specs(obs_shape, privileged_obs_shape)
        self.group_rows = {name: self._zeros(*spec) for name, spec in specs.items()}  # each [T or T + 1, N, ...]
        self.groups: Dict[str, Tensor] = {
            name: rows[:num_transitions_per_env] for name, rows in self.group_rows.items()
        }
        size = actions_shape[0]
        declared = {"action_mean": Column(size), "action_std": Column(size)} if columns is None else columns
        flag = Column(1, torch.bool)
        stored = {"actions": Column(size), "rewards": Column(1), "dones": flag, "time_outs": flag}
        stored.update({"sample_mask": Column(1), "values": Column(1), "actions_log_prob": Column(1), **declared})
        self.shared = tuple(name for name, column in stored.items() if column.shared)
        self.declared = tuple(declared)
        self.column_rows: Dict[str, Tensor] = {}  # each [T or T + 1, N, size]
        self.columns = {name: self._allocate(name, column) for name, column in stored.items()}
        self.returns, self.advantages = (self._allocate(name, Column(1)) for name in COMPUTED)
        self.plan = (plan or plan_chunks(num_transitions_per_env, num_transitions_per_env)).to(self.device)
        self.saved_hidden_states_a: Tuple[Tensor, ...] = ()  # at the start of chunks, each [K, L, N, H]
        self.saved_hidden_states_c: Tuple[Tensor, ...] = ()
        self.step = 0
        self._steps, self._sequences = StepBatches(self), SequenceBatches(self)
        self.batches = self._sequences if sequences else self._steps
        self._views = [self._view(step) for step in range(num_transitions_per_env)]
        self.clear()

    def _zeros(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        return torch.zeros(self._num_rows, self.num_envs, *shape, dtype=dtype, device=self.device)

    def _allocate(self, name: str, column: Column) -> Tensor:
        """Return the memory of a column, [T, N, size] or shared [size]."""
        if column.shared:
            return torch.zeros(column.size, dtype=column.dtype, device=self.device)
        self.column_rows[name] = self._zeros((column.size,), column.dtype)
        return self.column_rows[name][: self.num_transitions_per_env]

    def add_column(self, name: str, column: Column) -> None:
        """Declare one more column, which mini-batches then hold; transitions do not have it."""
        self.columns[name] = self._allocate(name, column)
        self.declared = (*self.declared, name)

    def _view(self, step: int) -> Transition:
        """Return views of one step; they are reused in every rollout."""
        columns = {name: column if name in self.shared else column[step] for name, column in self.columns.items()}
        return Transition({name: group[step] for name, group in self.groups.items()}, columns)

    def __getattr__(self, name: str) -> Tensor:
        """Return a column by its name."""
        columns = self.__dict__.get("columns", {})
        if name not in columns:
            raise AttributeError(f"{type(self).__name__} has no '{name}'; its columns are {', '.join(columns)}")
        return columns[name]

    @property
    def observations(self) -> Tensor:
        """Group "policy" [T, N, D]."""
        return self.groups["policy"]

    @property
    def privileged_observations(self) -> Optional[Tensor]:
        """Group "critic" [T, N, C], or None."""
        return self.groups.get("critic")

    @property
    def critic_observations(self) -> Tensor:
        """Group "critic" [T, N, C], or "policy" where there is none."""
        return self.groups.get("critic", self.groups["policy"])

    @property
    def mu(self) -> Tensor:
        """Mean [T, N, A] of the Gaussian."""
        return self.columns["action_mean"]

    @property
    def sigma(self) -> Tensor:
        """Standard deviation [T, N, A] of the Gaussian."""
        return self.columns["action_std"].expand_as(self.mu)

    @property
    def obs_shape(self) -> Tuple[int, ...]:
        """Shape of the group "policy" for one environment."""
        return tuple(self.observations.shape[2:])

    @property
    def privileged_obs_shape(self) -> Optional[Tuple[int, ...]]:
        """Shape of the group "critic" for one environment, or None."""
        return None if self.privileged_observations is None else tuple(self.privileged_observations.shape[2:])

    @property
    def actions_shape(self) -> Tuple[int, ...]:
        """Shape of the actions of one environment."""
        return tuple(self.columns["actions"].shape[2:])

    # Writing

    def current_step_view(self) -> Transition:
        """Return the next step as a transition of views; values copied into them are stored."""
        self._require_room()
        return self._views[self.step].copy()

    def add_transitions(self, transition: Transition) -> None:
        """Store a transition as the next step; views of :meth:`current_step_view` are not copied.

        A transition may omit ``time_outs``, which are then false, and ``sample_mask``, which is then 1.
        """
        self._require_room()
        view = self._views[self.step]
        for given, stored in ((transition.groups, view.groups), (transition.columns, view.columns)):
            for name, target in stored.items():
                value = given.get(name)
                if value is target:
                    continue
                if value is not None:
                    value = value.reshape(-1, target.shape[0])[0] if name in self.shared else value
                    target.copy_(value.reshape(target.shape))
                elif name not in OPTIONAL:
                    raise ValueError(f"the transition has no {name}; set every field before add_transitions")
        self._save_hidden_states(transition.hidden_states)
        self.step += 1

    def _save_hidden_states(self, hidden_states: Optional[Tuple[HiddenState, HiddenState]]) -> None:
        """Store the recurrent states at the start of a chunk; all other trajectories start after a done, with zeros."""
        hidden_states = hidden_states or (None, None)
        for chunk, begin in enumerate(self.plan.begins):
            if begin == self.step:
                self.saved_hidden_states_a = self._saved(self.saved_hidden_states_a, hidden_states[0], chunk)
                self.saved_hidden_states_c = self._saved(self.saved_hidden_states_c, hidden_states[1], chunk)

    def _saved(self, saved: Tuple[Tensor, ...], state: HiddenState, chunk: int) -> Tuple[Tensor, ...]:
        """Store a network's state [L, N, H] for a chunk; allocate the tensors at the first call."""
        states = as_states(state)
        if states and not saved:
            saved = tuple(s.new_zeros(len(self.plan.begins), *s.shape) for s in states)
        for i, target in enumerate(saved):
            if states:
                target[chunk].copy_(states[i])
            else:
                target[chunk].zero_()
        return saved

    def _require_room(self) -> None:
        if self.step >= self.num_transitions_per_env:
            raise OverflowError(f"the rollout already has {self.step} steps; call clear() before the next one")

    def clear(self) -> None:
        """Start the next rollout at the first step, without time-outs and with a sample mask of ones."""
        self.step = 0
        self.columns["time_outs"].zero_()
        self.columns["sample_mask"].fill_(1.0)

    # Reading

    def compute_returns(self, last_values: Tensor, gamma: float, lam: float, normalize: bool = True) -> None:
        """Fill returns and advantages; ``last_values`` [N, 1] are those of the observation after the last step.

        With ``normalize`` the advantages of the rollout have zero mean and unit standard deviation. A masked step must
        be done; its return is its own value, so that it does not change the returns of earlier steps.
        """
        mask = self.columns["sample_mask"]
        rewards = torch.where(mask > 0, self.columns["rewards"], self.columns["values"])
        advantages = gae(rewards, self.columns["values"], last_values, self.columns["dones"], gamma, lam)
        torch.add(advantages, self.columns["values"], out=self.returns)
        if not normalize:
            self.advantages.copy_(advantages).mul_(mask)
            return
        count = mask.sum()
        mean = torch.dot(advantages.flatten(), mask.flatten()) / count.clamp(min=1)
        centered = torch.sub(advantages, mean, out=self.advantages).mul_(mask)
        std = torch.linalg.vector_norm(centered) / (count - 1).clamp(min=1).sqrt()
        centered.div_(std + 1e-8)

    def get_statistics(self) -> Tuple[Tensor, Tensor]:
        """Return the mean length [steps] of the trajectories in the rollout, and its mean reward per step."""
        num_trajectories = trajectory_starts(self.columns["dones"]).sum()
        return self.columns["dones"].numel() / num_trajectories, self.columns["rewards"].mean()

    def mini_batch_generator(self, num_mini_batches: int, num_epochs: int = 8) -> Iterator[MiniBatch]:
        """Yield flat mini-batches of shuffled steps, every step once per epoch."""
        for steps in self._steps.shuffled(num_mini_batches, num_epochs):
            yield self._steps.gather(steps)

    def reccurent_mini_batch_generator(self, num_mini_batches: int, num_epochs: int = 8) -> Iterator[MiniBatch]:
        """Yield mini-batches of shuffled whole environments, every environment once per epoch."""
        for envs in self._sequences.shuffled(num_mini_batches, num_epochs):
            yield self._sequences.gather(envs)
