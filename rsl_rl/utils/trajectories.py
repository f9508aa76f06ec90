"""Trajectories within a rollout, which end where an episode is done and the recurrent state is reset.

Letters: T steps of a rollout, N environments, M trajectories, L layers, H hidden size.
"""

from __future__ import annotations

from typing import Mapping, NamedTuple, Optional, Sequence, Tuple, TypeVar, Union

import torch
from torch import Tensor

Groups = TypeVar("Groups", Tensor, Mapping[str, Tensor])
"""A tensor, or a mapping of them."""

HiddenState = Union[Tensor, Tuple[Tensor, ...], None]
"""Recurrent state of one network, tensors [L, N, H]: h of a GRU, (h, c) of an LSTM; None and () stand for zeros."""


def as_states(state: HiddenState) -> Tuple[Tensor, ...]:
    """Return a recurrent state as a tuple whatever its kind: (h,), (h, c), or () for zeros."""
    if state is None:
        return ()
    return (state,) if isinstance(state, Tensor) else tuple(state)


class ResetMasks(NamedTuple):
    """Where a recurrent state and its gradient are reset, in rollout order; both [T, N] of 0 and 1, as floats."""

    keep_state: Tensor  # 0 where the state is zeroed before the step
    keep_gradient: Tensor  # 0 where no gradient passes from the step to the one before

    @classmethod
    def none(cls, shape: Sequence[int], device: Optional[torch.device] = None) -> ResetMasks:
        """Return the masks [T, N] without a reset."""
        ones = torch.ones(shape, device=device)
        return cls(ones, ones)

    @classmethod
    def of_dones(cls, dones: Tensor) -> ResetMasks:
        """Return the masks of a rollout with dones [T, N]: the state is zeroed after each done."""
        keep = torch.ones(dones.shape, device=dones.device)
        keep[1:] = torch.logical_not(dones[:-1]).to(keep.dtype)
        return cls(keep, keep)


def trajectory_starts(dones: Tensor) -> Tensor:
    """Mark in [T, N] where a trajectory begins: at t = 0 and after every done."""
    starts = torch.ones_like(dones, dtype=torch.bool)
    starts[1:] = dones[:-1].bool()
    return starts


def split_and_pad_trajectories(tensor: Groups, dones: Tensor) -> Tuple[Groups, Tensor]:
    """Cut a rollout [T, N, ...], or a mapping of such groups, at dones [T, N] or [T, N, 1] into trajectories.

    Return them in the order of environments, padded with zeros to [T, M, ...], and their mask [T, M]: True for samples,
    False for padding. They are always padded to T steps, as in rsl_rl since 2.0, so that ``unpad_trajectories`` knows
    T. There is one host synchronisation, for M.
    """
    dones = dones.reshape(dones.shape[:2])
    num_steps = len(dones)
    starts = trajectory_starts(dones).t().flatten()  # samples are counted environment by environment, [N*T]
    sample = torch.arange(len(starts), device=dones.device)
    offset = sample - torch.where(starts, sample, torch.zeros_like(sample)).cummax(0).values
    trajectory = starts.cumsum(0) - 1
    num_trajectories = int(trajectory[-1]) + 1  # sync
    target = offset * num_trajectories + trajectory

    def pad(x: Tensor) -> Tensor:
        padded = x.new_zeros(num_steps * num_trajectories, *x.shape[2:])
        padded[target] = x.transpose(0, 1).flatten(0, 1)
        return padded.unflatten(0, (num_steps, num_trajectories))

    mask = pad(torch.ones_like(dones, dtype=torch.bool))
    if isinstance(tensor, Tensor):
        return pad(tensor), mask
    return {name: pad(group) for name, group in tensor.items()}, mask


def unpad_trajectories(trajectories: Groups, masks: Tensor) -> Groups:
    """Undo :func:`split_and_pad_trajectories`: [T, M, ...], or a mapping of such groups, back to [T, N, ...]."""

    def unpad(x: Tensor) -> Tensor:
        samples = x.transpose(0, 1)[masks.t()]  # sync: as many rows as the mask has samples
        return samples.unflatten(0, (-1, len(masks))).transpose(0, 1)

    if isinstance(trajectories, Tensor):
        return unpad(trajectories)
    return {name: unpad(group) for name, group in trajectories.items()}
