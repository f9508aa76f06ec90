"""What a rollout stores: observation groups and columns."""

from __future__ import annotations

from typing import Dict, Mapping, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor


class GroupSpec(NamedTuple):
    """Shape and type of an observation group for one environment."""

    shape: Tuple[int, ...]
    dtype: torch.dtype = torch.float32

    @classmethod
    def of(cls, group: Tensor) -> GroupSpec:
        """Return the spec for storing a group [N, ...]; float64 is stored as float32."""
        return cls(tuple(group.shape[1:]), torch.float32 if group.dtype == torch.float64 else group.dtype)


class Column(NamedTuple):
    """Values that are stored with each step besides observations."""

    size: int
    dtype: torch.dtype = torch.float32
    shared: bool = False  # the same for all samples of a rollout, stored once [size]


Groups = Mapping[str, GroupSpec]

STORED = ("actions", "rewards", "dones", "time_outs", "sample_mask", "values", "actions_log_prob")
"""Columns of every storage."""

COMPUTED = ("returns", "advantages")
"""Columns of mini-batches that are computed and not stored."""


def vector_group_specs(obs_shape: Sequence[int], privileged_obs_shape: Optional[Sequence[int]]) -> Dict[str, GroupSpec]:
    """Return the groups "policy" and, unless its shape is None, "critic" of one or two observation tensors."""
    specs = {"policy": GroupSpec(tuple(obs_shape))}
    if privileged_obs_shape is not None:
        specs["critic"] = GroupSpec(tuple(privileged_obs_shape))
    return specs
