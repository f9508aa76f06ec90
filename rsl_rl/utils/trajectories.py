"""Cut rollouts into trajectories and lay them side by side, by index arithmetic alone.

Letters: T steps of a rollout, N environments, M trajectories, L layers, H hidden size. Every trajectory is padded to T
steps, whether or not one of them spans the whole rollout, so that no shape but M depends on the data.
"""

from __future__ import annotations

from typing import NamedTuple, Optional, Tuple, Union

import torch
from torch import Tensor

HiddenState = Union[Tensor, Tuple[Tensor, ...], None]
"""Memory of one network, tensors [L, N, H]: h of a GRU, (h, c) of an LSTM; None and () stand for zeros."""


class Cut(NamedTuple):
    """Where each sample of a rollout lies among its trajectories; samples are counted environment by environment."""

    offset: Tensor  # [N*T] step within the trajectory
    trajectory: Tensor  # [N*T] which trajectory
    count: int  # M


def trajectory_starts(dones: Tensor) -> Tensor:
    """Mark in [T, N] where a trajectory begins: at t = 0 and after every done."""
    starts = torch.ones_like(dones, dtype=torch.bool)
    starts[1:] = dones[:-1].bool()
    return starts


def cut_at_dones(dones: Tensor, count: Optional[int] = None) -> Cut:
    """Find the trajectories of a rollout with dones [T, N]; ``count`` saves the host from asking the device for M."""
    starts = trajectory_starts(dones).t().flatten()
    sample = torch.arange(len(starts), device=dones.device)
    offset = sample - torch.where(starts, sample, torch.zeros_like(sample)).cummax(0).values
    trajectory = starts.cumsum(0) - 1
    return Cut(offset, trajectory, int(trajectory[-1]) + 1 if count is None else count)


def pad(x: Tensor, cut: Cut) -> Tensor:
    """Lay a rollout [T, N, ...] out as trajectories [T, M, ...], zeros behind the end of each."""
    padded = x.new_zeros(len(x) * cut.count, *x.shape[2:])
    padded[cut.offset * cut.count + cut.trajectory] = x.transpose(0, 1).flatten(0, 1)
    return padded.unflatten(0, (len(x), cut.count))


def unpad(y: Tensor, cut: Cut) -> Tensor:
    """Undo :func:`pad`: trajectories [T, M, ...] back to the rollout [T, N, ...], asking the device for no size."""
    rows = y.flatten(0, 1).index_select(0, cut.offset * cut.count + cut.trajectory)
    return rows.unflatten(0, (-1, len(y))).transpose(0, 1)


def initial_states(state: Tensor, cut: Cut) -> Tensor:
    """Give each trajectory its first memory [L, M, H]: the environment's own [L, N, H] at t = 0, zeros after a done."""
    states = state.new_zeros(state.shape[0], cut.count, state.shape[2])
    states[:, cut.trajectory.view(state.shape[1], -1)[:, 0]] = state
    return states


def split_and_pad_trajectories(tensor: Tensor, dones: Tensor) -> Tuple[Tensor, Tensor]:
    """Cut a rollout [T, N, ...] at dones [T, N] or [T, N, 1] into padded trajectories [T, M, ...] and their mask [T,
    M].

    Trajectories come environment by environment; the mask is True on samples and False on padding.
    """
    dones = dones.reshape(dones.shape[:2])
    cut = cut_at_dones(dones)
    return pad(tensor, cut), pad(torch.ones_like(dones, dtype=torch.bool), cut)


def unpad_trajectories(trajectories: Tensor, masks: Tensor) -> Tensor:
    """Undo :func:`split_and_pad_trajectories`: [T, M, ...] and the mask [T, M] back to the rollout [T, N, ...]."""
    samples = trajectories.transpose(0, 1)[masks.t()]  # sync: as many rows as the mask has samples
    return samples.unflatten(0, (-1, len(trajectories))).transpose(0, 1)
