"""A network over observation groups: normaliser, image encoders, memory and head; all but the head are optional."""

from __future__ import annotations

from typing import Mapping, Optional, Sequence, Union

import torch
from torch import Tensor, nn

from rsl_rl.distributed import Collective
from rsl_rl.modules.memory import Memory
from rsl_rl.modules.normalizer import RunningNorm
from rsl_rl.utils.trajectories import HiddenState, ResetMasks

Observation = Union[Tensor, Mapping[str, Tensor]]
"""Named groups, each [N, ...]; for a network of vectors also their concatenation [N, D]."""


class Model(nn.Module):
    """Map observation groups to outputs.

    Vector groups are concatenated and normalised, image groups are encoded and appended, and the result passes through
    the memory, if there is one, and the head. ``groups`` are the names that it reads, in this order.
    """

    def __init__(
        self,
        groups: Sequence[str],
        normalizer: nn.Module,
        image_encoders: Mapping[str, nn.Module],
        memory: Optional[Memory],
        head: nn.Module,
    ):
        super().__init__()
        self.normalizer = normalizer
        self.image_encoders = (
            image_encoders if isinstance(image_encoders, nn.ModuleDict) else nn.ModuleDict(image_encoders)
        )
        self.memory = memory
        self.head = head
        self.has_statistics = isinstance(normalizer, RunningNorm)  # which change between rollouts
        self.set_groups(groups)

    def set_groups(self, groups: Sequence[str]) -> None:
        """Set the names of the groups to read."""
        self.groups = tuple(groups)
        self.vector_groups = tuple(group for group in self.groups if group not in self.image_encoders)

    def forward(
        self, obs: Observation, masks: Optional[ResetMasks] = None, state: HiddenState = None, advance: bool = True
    ) -> Tensor:
        """Return the outputs [..., outputs].

        Without ``masks`` a memory advances its own state by one step, or with ``advance=False`` leaves it as it is;
        with them it runs sequences [T, n, ...] from ``state`` [L, n, H].
        """
        features = self.encode(obs)
        if self.memory is not None:
            if masks is not None:
                features = self.memory.sequence(features, masks, state)
            else:
                features = self.memory.step(features) if advance else self.memory.step_stateless(features)
        return self.head(features)

    def encode(self, obs: Observation) -> Tensor:
        """Return the input of the memory, or of the head where there is no memory."""
        if isinstance(obs, Tensor):
            return self.normalizer(obs.float())
        vectors = list(map(obs.__getitem__, self.vector_groups))
        parts = []
        if vectors:
            parts.append(self.normalizer((vectors[0] if len(vectors) == 1 else torch.cat(vectors, dim=-1)).float()))
        for group, encoder in self.image_encoders.items():
            parts.append(encoder(obs[group]))
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)

    def vectors(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Return the concatenation [..., D] of the vector groups, as float32."""
        return torch.cat([obs[group].float() for group in self.vector_groups], dim=-1)

    def update_normalization(self, obs: Mapping[str, Tensor], sample_mask: Tensor, collective: Collective) -> None:
        """Merge the rollouts [T, N, ...] of all ranks into the running statistics, between an update and the next
        rollout; ``sample_mask`` [T, N, 1] is the weight of each sample."""
        assert isinstance(self.normalizer, RunningNorm)
        self.normalizer.update(self.vectors(obs), sample_mask, collective)

    def export_module(self) -> Optional[nn.Module]:
        """Return the module to be exported in place of this network's parts; None for these."""
        return None
