"""Mini-batches of observation groups, as rsl_rl 3 to 5 make them: one order for all epochs, and what does not fill a
mini-batch is left out."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import torch
from torch import Tensor

from rsl_rl.storage.rollout import RolloutStorage
from rsl_rl.utils import trajectories
from rsl_rl.utils.registry import import_object
from rsl_rl.utils.trajectories import HiddenState, as_states, trajectory_starts

_ITEMS = ("observations", "actions", "values", "advantages", "returns", "old_actions_log_prob", "old_mu", "old_sigma",
          "hidden_states", "masks")  # fmt: skip
"""What a mini-batch of version 3 unpacks into."""


class Batch:
    """A mini-batch of steps [B, ...], or of trajectories: observations [T, M, ...] with ``masks`` [T, M], the rest
    [T, n, ...]. It has the names of version 5, and unpacks into the ten items of version 3."""

    def __init__(
        self,
        observations: Any = None,
        actions: Optional[Tensor] = None,
        values: Optional[Tensor] = None,
        advantages: Optional[Tensor] = None,
        returns: Optional[Tensor] = None,
        old_actions_log_prob: Optional[Tensor] = None,
        old_distribution_params: Optional[Tuple[Tensor, ...]] = None,
        hidden_states: Tuple[HiddenState, HiddenState] = (None, None),
        masks: Optional[Tensor] = None,
        privileged_actions: Optional[Tensor] = None,
        dones: Optional[Tensor] = None,
        sample_mask: Optional[Tensor] = None,
    ):
        self.observations, self.actions, self.values = observations, actions, values
        self.advantages, self.returns, self.old_actions_log_prob = advantages, returns, old_actions_log_prob
        self.old_distribution_params, self.hidden_states, self.masks = old_distribution_params, hidden_states, masks
        self.privileged_actions, self.dones, self.sample_mask = privileged_actions, dones, sample_mask

    old_mu = property(lambda self: self.old_distribution_params[0])
    old_sigma = property(lambda self: self.old_distribution_params[1])

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, name) for name in _ITEMS)

    def __getitem__(self, index: int) -> Any:
        """Return one of the ten items."""
        return getattr(self, _ITEMS[index])


def tensordict(fields: Mapping[str, Tensor], sizes: Sequence[int], device: Any = None) -> Any:
    """Return fields as a TensorDict of the same tensors."""
    return import_object("tensordict:TensorDict")(dict(fields), batch_size=sizes, device=device)


def grouped(groups: Mapping[str, Tensor], num_dims: int) -> Any:
    """Return observation groups with leading dimensions in common as a TensorDict; as a dict where the package
    tensordict is not installed."""
    if find_spec("tensordict") is None:
        return dict(groups)
    return tensordict(groups, next(iter(groups.values())).shape[:num_dims])


def split_and_pad_trajectories(tensor: Any, dones: Tensor) -> Tuple[Any, Tensor]:
    """Call :func:`rsl_rl.utils.trajectories.split_and_pad_trajectories`; a TensorDict gives a TensorDict."""
    padded, masks = trajectories.split_and_pad_trajectories(tensor, dones)
    return _of_kind(tensor, padded), masks


def unpad_trajectories(padded: Any, masks: Tensor) -> Any:
    """Call :func:`rsl_rl.utils.trajectories.unpad_trajectories`; a TensorDict gives a TensorDict."""
    return _of_kind(padded, trajectories.unpad_trajectories(padded, masks))


def _of_kind(given: Any, fields: Any) -> Any:
    return grouped(fields, 2) if hasattr(given, "batch_size") else fields


def step_batches(storage: RolloutStorage, names: Sequence[str], num_batches: int, num_epochs: int) -> Iterator[Batch]:
    """Yield mini-batches of steps; ``names`` are the columns of the distribution's parameters."""
    size = storage.num_envs * storage.num_steps // num_batches
    order = torch.randperm(num_batches * size, device=storage.device)
    groups = {name: group.flatten(0, 1) for name, group in storage.groups.items()}
    columns = {name: column.flatten(0, 1) for name, column in _columns(storage, names).items()}
    for _ in range(num_epochs):
        for rows in order.split(size):
            chosen = {name: column[rows] for name, column in columns.items()}
            yield _batch(grouped({name: group[rows] for name, group in groups.items()}, 1), chosen, names)


def trajectory_batches(
    storage: RolloutStorage, names: Sequence[str], num_batches: int, num_epochs: int
) -> Iterator[Batch]:
    """Yield mini-batches of the trajectories of neighbouring environments, in their order."""
    dones = storage.columns["dones"].squeeze(-1)
    padded, masks = split_and_pad_trajectories(storage.groups, dones)
    states = [states_at_starts(parts, dones) for parts in storage.saved_states]
    bounds = [0, *trajectory_starts(dones).sum(dim=0).cumsum(dim=0).tolist()]  # trajectories before each environment
    size = storage.num_envs // num_batches
    columns = _columns(storage, names)
    for _ in range(num_epochs):
        for i in range(num_batches):
            envs = slice(i * size, (i + 1) * size)
            own = slice(bounds[envs.start], bounds[envs.stop])
            chosen = {name: column[:, envs] for name, column in columns.items()}
            obs = grouped({name: group[:, own] for name, group in padded.items()}, 2)
            actor, critic = (_some(state, own) for state in states)
            yield _batch(obs, chosen, names, hidden_states=(actor, critic), masks=masks[:, own])


def _batch(obs: Any, columns: Dict[str, Tensor], names: Sequence[str], **others: Any) -> Batch:
    kept = ("actions", "values", "advantages", "returns", "sample_mask")
    parameters = tuple(columns[name] for name in names)
    return Batch(
        obs,
        old_actions_log_prob=columns["actions_log_prob"],
        old_distribution_params=parameters,
        **{name: columns[name] for name in kept},
        **others,
    )


def _columns(storage: RolloutStorage, names: Sequence[str]) -> Dict[str, Tensor]:
    """Return the columns of mini-batches, each [T, N, size]; what is stored once is that of all steps."""
    columns = {name: storage.columns[name] for name in ("actions", "values", "actions_log_prob", "sample_mask",
                                                        "returns", "advantages", *names)}  # fmt: skip
    shape = columns["actions"].shape[:2]
    return {name: x if x.dim() > 1 else x.expand(*shape, -1) for name, x in columns.items()}


def trajectory_states(state: HiddenState, dones: Tensor) -> HiddenState:
    """Return the recurrent states [L, M, H] before the trajectories of :func:`split_and_pad_trajectories`, from those
    before a rollout [L, N, H] with dones [T, N]: zeros for trajectories that begin after a done."""
    starts = trajectory_starts(dones.reshape(dones.shape[:2])).t()  # [N, T]
    parts = []
    for before in as_states(state):
        steps = before.new_zeros(*before.shape[:2], starts.shape[1], before.shape[2])  # [L, N, T, H]
        steps[:, :, 0] = before
        parts.append(steps[:, starts])
    return parts[0] if len(parts) == 1 else tuple(parts)


def states_at_starts(saved: Tuple[Tensor, ...], dones: Tensor) -> HiddenState:
    """Return the recurrent states [L, M, H] before the trajectories of a rollout, from those of every step
    [T, L, N, H], or of its first one [1, L, N, H]."""
    if all(len(part) == 1 for part in saved):
        return trajectory_states(tuple(part[0] for part in saved), dones)
    starts = trajectory_starts(dones).t()  # [N, T]
    parts: List[Tensor] = [part.permute(2, 0, 1, 3)[starts].transpose(0, 1) for part in saved]
    return parts[0] if len(parts) == 1 else tuple(parts)


def _some(state: HiddenState, trajectories: slice) -> HiddenState:
    """Return the states [L, m, H] of some of M trajectories, as a torch layer takes them."""
    parts = tuple(part[:, trajectories].contiguous() for part in as_states(state))
    return None if not parts else parts[0] if len(parts) == 1 else parts
