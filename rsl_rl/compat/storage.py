"""Rollout, step and mini-batch with the constructors and names of rsl_rl 1 to 3."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, Iterator, Mapping, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from rsl_rl.compat.batches import Batch, grouped, step_batches, trajectory_batches, trajectory_states
from rsl_rl.compat.former_names import Facade
from rsl_rl.env.vec_env import is_groups
from rsl_rl.storage import returns, rollout
from rsl_rl.storage.mini_batches import ChunkPlan, MiniBatch, SequenceBatches, StepBatches, plan_chunks
from rsl_rl.storage.rollout import Column, GroupSpec
from rsl_rl.utils.trajectories import HiddenState, split_and_pad_trajectories, trajectory_starts

_OPTIONAL = ("time_outs", "sample_mask", "returns", "advantages")
"""Columns that a transition may omit."""

_COLUMNS = ("actions", "rewards", "dones", "time_outs", "sample_mask", "values", "actions_log_prob", "action_mean",
            "action_std")  # fmt: skip
_NAMES = {
    "observations": ("groups", "policy"),
    "critic_observations": ("groups", "critic"),
    **{name: ("columns", name) for name in _COLUMNS},
    "action_sigma": ("columns", "action_std"),
}
"""Names of rsl_rl for the parts of a transition."""


def vector_group_specs(obs_shape: Sequence[int], privileged_obs_shape: Optional[Sequence[int]]) -> Dict[str, GroupSpec]:
    """Return the groups "policy" and, unless its shape is None, "critic" of one or two observation tensors."""
    shapes = {"policy": obs_shape, "critic": privileged_obs_shape}
    return {name: GroupSpec(tuple(shape)) for name, shape in shapes.items() if shape is not None}


class Transition:
    """Views of one step of the storage, or other tensors to be copied into it.

    ``groups`` are the observations by group [N, ...], ``columns`` all other data by name [N, size]; ``hidden_states``
    are those of actor and critic before the step. Groups and columns are also attributes with the names of rsl_rl, such
    as ``observations`` and ``actions``; values that are not set are None. ``on_demand`` are functions that compute
    columns [N, size] when such an attribute is first read.
    """

    groups: Dict[str, Tensor]
    columns: Dict[str, Tensor]
    hidden_states: Optional[Tuple[HiddenState, HiddenState]]
    on_demand: Dict[str, Callable[[], Tensor]]
    by_group = False
    """Whether ``observations`` are all groups, as in rsl_rl 3 to 5, and not the group "policy"."""
    distribution_params: Optional[Tuple[Tensor, ...]] = None
    privileged_actions: Optional[Tensor] = None

    def __init__(
        self,
        groups: Optional[Mapping[str, Tensor]] = None,
        columns: Optional[Mapping[str, Tensor]] = None,
        hidden_states: Optional[Tuple[HiddenState, HiddenState]] = None,
        **named: Tensor,
    ):
        self.groups, self.columns = dict(groups or {}), dict(columns or {})
        self.hidden_states, self.on_demand = hidden_states, {}
        for name, value in named.items():
            if name not in _NAMES:
                raise TypeError(f"a transition has no '{name}'; known: {', '.join(_NAMES)}")
            setattr(self, name, value)

    def __iter__(self) -> Iterator[Any]:
        """Unpack into groups and columns, as this version's transitions do."""
        return iter((self.groups, self.columns))

    def clear(self) -> None:
        """Drop every tensor."""
        self.groups, self.columns, self.hidden_states, self.on_demand = {}, {}, None, {}
        self.distribution_params = self.privileged_actions = None

    def __getattr__(self, name: str) -> Any:
        if name not in _NAMES:
            raise AttributeError(f"a transition has no '{name}'")
        if name in self.on_demand:
            with torch.no_grad():
                self.columns[name].copy_(self.on_demand.pop(name)())
        if name == "observations" and self.by_group:
            return grouped(self.groups, 1) if self.groups else None
        part, key = _NAMES[name]
        return getattr(self, part).get(key)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "observations" and is_groups(value):
            self.groups, self.by_group = {group: value[group] for group in value.keys()}, True  # noqa: SIM118
        elif name in _NAMES:
            part, key = _NAMES[name]
            getattr(self, part)[key] = value
        else:
            object.__setattr__(self, name, value)


class ClientBatch(MiniBatch):
    """A mini-batch that unpacks into the eleven items of rsl_rl 1, and has their names."""

    def __iter__(self) -> Iterator[Any]:
        """Unpack into observations, critic observations, actions, values, advantages, returns, log-probabilities,
        means, standard deviations, hidden states of actor and critic, and masks.

        Of sequences, observations are padded trajectories [S, M, ...] with their masks [S, M] and first states.
        """
        observations, states, masks = [self.observations, self.critic_observations], self.hidden_states, None
        if self.masks is not None:
            dones = dones_of(self.masks.keep_state)
            padded = [split_and_pad_trajectories(group, dones) for group in observations]
            observations, masks = [trajectories for trajectories, _ in padded], padded[0][1]
            states = trajectory_states(states[0], dones), trajectory_states(states[1], dones)
        yield from observations
        yield from (self.actions, self.values, self.advantages, self.returns, self.old_actions_log_prob)
        yield from (self.old_mu, self.old_sigma.expand_as(self.old_mu), states, masks)

    def __getattr__(self, name: str) -> Tensor:
        """Return a column by its name: actions, values, advantages, returns."""
        columns = self.__dict__.get("columns", {})
        if name not in columns:
            raise AttributeError(f"a mini-batch has no '{name}'; its columns are {', '.join(columns)}")
        return columns[name]

    observations = property(lambda self: self.groups["policy"])
    critic_observations = property(lambda self: self.groups["critic" if "critic" in self.groups else "policy"])
    old_actions_log_prob = property(lambda self: self.columns["actions_log_prob"])
    old_mu = property(lambda self: self.columns["action_mean"])
    old_sigma = property(lambda self: self.columns["action_std"])


def dones_of(keep_state: Tensor) -> Tensor:
    """Return dones [T, N] bool of a rollout from where its state is kept, 0 or 1; those of the last step are unknown
    and False."""
    dones = torch.zeros_like(keep_state, dtype=torch.bool)
    dones[:-1] = keep_state[1:] == 0
    return dones


class RolloutStorage(rollout.RolloutStorage, metaclass=Facade):
    """T steps of N environments, with the constructor and names of rsl_rl 1.

    ``obs_shape`` is the shape of the group "policy", ``privileged_obs_shape`` that of the group "critic" or None; or
    ``obs_shape`` is a mapping from the names of all groups to their :class:`GroupSpec`. ``columns`` are stored beside
    the standard ones; by default the mean and standard deviation of a Gaussian. With ``extra_step`` there is memory for
    T + 1 steps, which ``RolloutBuffer`` uses; the rollout has T.
    """

    stands_for = rollout.RolloutStorage
    Transition = Transition
    Batch = Batch
    by_group = False
    """Whether observations, transitions and mini-batches are those of rsl_rl 3 to 5, with all groups by name."""
    parameter_names: Tuple[str, ...] = ()
    """Columns with the parameters of the distribution over actions."""

    def __init__(
        self,
        num_envs: int,
        num_transitions_per_env: int,
        obs_shape: Union[Sequence[int], Mapping[str, GroupSpec]],
        privileged_obs_shape: Optional[Sequence[int]],
        actions_shape: Sequence[int],
        device: Union[str, torch.device] = "cpu",
        plan: Optional[ChunkPlan] = None,
        columns: Optional[Mapping[str, Column]] = None,
        sequences: bool = False,
        extra_step: bool = False,
    ):
        specs = obs_shape if isinstance(obs_shape, Mapping) else vector_group_specs(obs_shape, privileged_obs_shape)
        size = actions_shape[0]
        declared = {"action_mean": Column(size), "action_std": Column(size)} if columns is None else columns
        self._num_rows = num_transitions_per_env + extra_step
        super().__init__(num_envs, num_transitions_per_env, specs, size, declared, device, plan, sequences)
        self.declared = tuple(declared)

    @classmethod
    def of_groups(cls, *args: Any, extra_step: bool = False) -> RolloutStorage:
        """Return a storage from the arguments of this version's constructor."""
        num_envs, num_steps, groups, action_size, columns, device, plan, sequences = args
        return cls(num_envs, num_steps, groups, None, [action_size], device, plan, columns, sequences, extra_step)

    def allocate(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        rows = torch.zeros(self._num_rows, self.num_envs, *shape, dtype=dtype, device=self.device)
        return rows[: self.num_steps]

    @property
    def group_rows(self) -> Dict[str, Tensor]:
        """Memory [T or T + 1, N, ...] of each group."""
        return {name: _rows_of(group) for name, group in self.groups.items()}

    @property
    def column_rows(self) -> Dict[str, Tensor]:
        """Memory [T or T + 1, N, size] of each column that is not shared."""
        return {name: _rows_of(column) for name, column in self.columns.items() if name not in self.shared}

    def add_column(self, name: str, column: Column) -> None:
        """Declare one more column, which mini-batches then hold; transitions do not have it."""
        self.columns[name] = self.allocate((column.size,), column.dtype)
        self.declared, self.in_batches = (*self.declared, name), (*self.in_batches, name)

    def __getattr__(self, name: str) -> Tensor:
        """Return a column by its name."""
        columns = self.__dict__.get("columns", {})
        if name not in columns:
            raise AttributeError(f"{type(self).__name__} has no '{name}'; its columns are {', '.join(columns)}")
        return columns[name]

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; values of a column are written into its memory."""
        columns = self.__dict__.get("columns", {})
        if name in columns:
            columns[name].copy_(value)
        else:
            object.__setattr__(self, name, value)

    def serve_groups(self, parameter_names: Iterable[str]) -> None:
        """Give observations, transitions and mini-batches the form of rsl_rl 3 to 5."""
        self.by_group, self.parameter_names = True, tuple(parameter_names)

    # Names

    num_transitions_per_env = property(lambda self: self.num_steps)
    observations = property(lambda self: grouped(self.groups, 2) if self.by_group else self.groups["policy"])
    privileged_observations = property(lambda self: self.groups.get("critic"))
    critic_observations = property(lambda self: self.groups.get("critic", self.groups["policy"]))
    distribution_params = property(lambda self: tuple(self.columns[name] for name in self.parameter_names))
    mu = property(lambda self: self.columns["action_mean"])
    sigma = property(lambda self: self.columns["action_std"].expand_as(self.mu))
    saved_hidden_states_a = property(lambda self: self.saved_states[0])
    saved_hidden_states_c = property(lambda self: self.saved_states[1])
    saved_hidden_state_a = property(lambda self: self.saved_states[0] or None)
    saved_hidden_state_c = property(lambda self: self.saved_states[1] or None)
    obs_shape = property(lambda self: _shape_of(self.groups["policy"]))
    privileged_obs_shape = property(lambda self: _shape_of(self.privileged_observations))
    actions_shape = property(lambda self: _shape_of(self.columns["actions"]))

    # Writing

    def current_step_view(self) -> Transition:
        """Return the next step as a transition of views; values copied into them are stored."""
        self._require_room()
        return Transition(*self._rows[self.step])

    def _require_room(self) -> None:
        if self.step >= self.num_steps:
            raise OverflowError(f"the rollout already has {self.step} steps; call clear() before the next one")

    def add_transitions(self, transition: Transition) -> None:
        """Store a transition as the next step; views of the step's memory are not copied.

        A transition may omit ``time_outs``, which are then false, and ``sample_mask``, which is then 1.
        """
        self._require_room()
        row = self._rows[self.step]
        for given, stored in ((transition.groups, row.groups), (transition.columns, row.columns)):
            for name, target in stored.items():
                value = given.get(name)
                if value is target or (value is None and name in _OPTIONAL):
                    continue
                if value is None:
                    raise ValueError(f"the transition has no {name}; set every field before add_transitions")
                value = value.reshape(-1, target.shape[0])[0] if name in self.shared else value
                target.copy_(value.reshape(target.shape))
        self._save_hidden_states(transition.hidden_states)
        self.step += 1

    add_transition = add_transitions  # its name since version 3.3

    def _save_hidden_states(self, hidden_states: Optional[Tuple[HiddenState, HiddenState]]) -> None:
        """Store the recurrent states at the start of a chunk; None stands for zeros."""
        if self.step in self.plan.begins:
            self.save_states(hidden_states or (None, None))

    # Reading

    def compute_returns(self, last_values: Tensor, gamma: float, lam: float, normalize: bool = True) -> None:
        """Fill returns and advantages; ``last_values`` [N, 1] are those of the observation after the last step.

        A masked step must be done; its return is its own value, so that it does not change the returns of earlier
        steps.
        """
        columns = self.columns
        mask, values = columns["sample_mask"], columns["values"]
        rewards = torch.where(mask > 0, columns["rewards"], values)
        advantages = returns.gae(rewards, values, last_values, columns["dones"], gamma, lam)
        torch.add(advantages, values, out=columns["returns"])
        if normalize:
            returns.normalize(advantages, mask, out=columns["advantages"])
        else:
            torch.mul(advantages, mask, out=columns["advantages"])

    def get_statistics(self) -> Tuple[Tensor, Tensor]:
        """Return the mean length [steps] of the trajectories in the rollout, and its mean reward per step."""
        num_trajectories = trajectory_starts(self.columns["dones"]).sum()
        return self.columns["dones"].numel() / num_trajectories, self.columns["rewards"].mean()

    def mini_batch_generator(self, num_mini_batches: int, num_epochs: int = 8) -> Iterator[Any]:
        """Yield flat mini-batches of shuffled steps, every step once per epoch."""
        if self.by_group:
            yield from step_batches(self, self.parameter_names, num_mini_batches, num_epochs)
            return
        batches = StepBatches(self)
        for steps in batches.shuffled(num_mini_batches, num_epochs):
            yield ClientBatch(**vars(batches.gather(steps)))

    def recurrent_mini_batch_generator(self, num_mini_batches: int, num_epochs: int = 8) -> Iterator[Any]:
        """Yield mini-batches of shuffled whole environments, every environment once per epoch."""
        if self.by_group:
            yield from trajectory_batches(self, self.parameter_names, num_mini_batches, num_epochs)
            return
        batches = SequenceBatches(self)
        for envs in batches.shuffled(num_mini_batches, num_epochs):
            yield ClientBatch(**vars(batches.gather(envs)))

    reccurent_mini_batch_generator = recurrent_mini_batch_generator  # its name in version 1


def _shape_of(x: Optional[Tensor]) -> Optional[Tuple[int, ...]]:
    """Return the shape of a step of one environment in a group or column [T, N, ...]; None for None."""
    return None if x is None else tuple(x.shape[2:])


def _rows_of(x: Tensor) -> Tensor:
    """Return the memory of which a tensor of ``RolloutStorage.allocate`` is the first T steps."""
    assert x._base is not None
    return x._base


class GroupStorage(RolloutStorage):
    """A storage with the constructor and names of rsl_rl 3.3 to 5.

    ``training_type`` is "rl" or "distillation"; ``obs`` are observation groups [N, ...] of the environment. The
    parameters of the distribution are stored as they come with the first transition. Recurrent states are stored at
    every step, until :meth:`adopt` is called.
    """

    by_group = True

    def __init__(
        self,
        training_type: str,
        num_envs: int,
        num_transitions_per_env: int,
        obs: Mapping[str, Tensor],
        actions_shape: Sequence[int],
        device: Union[str, torch.device] = "cpu",
    ):
        if training_type not in ("rl", "distillation"):
            raise ValueError(f"training_type={training_type!r}; give 'rl' or 'distillation'")
        groups = {name: GroupSpec.of(obs[name]) for name in obs.keys()}  # noqa: SIM118
        columns = {"privileged_actions": Column(actions_shape[0])} if training_type == "distillation" else {}
        plan = plan_chunks(num_transitions_per_env, 1)
        super().__init__(num_envs, num_transitions_per_env, groups, None, actions_shape, device, plan, columns)
        self.training_type = training_type

    def adopt(self, parameter_shapes: Mapping[str, Sequence[int]], sequences: bool) -> None:
        """Store the rollouts of a policy with these parameters, with ``sequences`` of one with memory."""
        self.plan = plan_chunks(self.num_steps, self.num_steps).to(self.device)
        self.batches = SequenceBatches(self) if sequences else StepBatches(self)
        self._declare({name: shape[0] for name, shape in parameter_shapes.items()})

    @torch.inference_mode(False)  # a client that collects in inference mode learns from the same memory
    def _declare(self, sizes: Mapping[str, int]) -> None:
        for name, size in sizes.items():
            self.add_column(name, Column(size))
        self.parameter_names = tuple(sizes)
        self._rows = [self._view(step) for step in range(self.num_steps)]

    def add_transitions(self, transition: Any) -> None:
        """Store a transition as the next step."""
        self._require_room()
        names = ["actions", "rewards", "dones"]
        if self.training_type == "rl":
            parameters = transition.distribution_params
            declared = [f"parameter_{i}" for i in range(len(parameters or ()))]
            if parameters is None:  # version 3
                parameters, declared = (transition.action_mean, transition.action_sigma), ["action_mean", "action_std"]
            if not self.parameter_names:
                self._declare({name: parameter.shape[-1] for name, parameter in zip(declared, parameters)})
            transition.columns.update(zip(self.parameter_names, parameters))
            names += ["values", "actions_log_prob", *self.parameter_names]
        else:
            transition.columns["privileged_actions"] = transition.privileged_actions
            names.append("privileged_actions")
        row = self._rows[self.step]
        given = {name: transition.columns.get(name) for name in names}
        missing = [name for name, value in given.items() if value is None]
        if missing or not transition.groups:
            raise ValueError(f"the transition has no {(missing or ['observations'])[0]}; set it before add_transition")
        for name, place in row.groups.items():
            place.copy_(transition.groups[name])
        for name, value in given.items():
            row.columns[name].copy_(value.reshape(row.columns[name].shape))
        self._save_hidden_states(transition.hidden_states)
        self.step += 1

    add_transition = add_transitions

    def _save_hidden_states(self, hidden_states: Optional[Tuple[HiddenState, HiddenState]]) -> None:
        if hidden_states not in (None, (None, None)):
            super()._save_hidden_states(hidden_states)

    def mini_batch_generator(self, num_mini_batches: int, num_epochs: int = 8) -> Iterator[Any]:
        self._require_type("rl")
        return super().mini_batch_generator(num_mini_batches, num_epochs)

    def recurrent_mini_batch_generator(self, num_mini_batches: int, num_epochs: int = 8) -> Iterator[Any]:
        self._require_type("rl")
        return super().recurrent_mini_batch_generator(num_mini_batches, num_epochs)

    def generator(self) -> Iterator[Batch]:
        """Yield the steps of a distillation, one after the other."""
        self._require_type("distillation")
        for row in self._rows:
            columns = row.columns
            yield Batch(
                grouped(row.groups, 1), privileged_actions=columns["privileged_actions"], dones=columns["dones"]
            )

    def _require_type(self, needed: str) -> None:
        if self.training_type != needed:
            raise ValueError(
                f"this is a storage for '{self.training_type}'; these mini-batches need one for '{needed}'"
            )
