"""A network over observation groups: normaliser, image encoders, memory and head; all but the head are optional."""

from __future__ import annotations

from typing import Dict, Mapping, Optional, Sequence, Tuple, Union, cast

import torch
from torch import Tensor, nn

from rsl_rl.modules.cnn import CNN
from rsl_rl.modules.memory import Memory
from rsl_rl.modules.normalizer import RunningNorm
from rsl_rl.utils.trajectories import HiddenState, ResetMasks

Masks = Union[ResetMasks, Tensor, None]
"""Resets of a recurrent mini-batch, the masks [T, M] of padded trajectories, or None while acting."""
Observation = Union[Tensor, Mapping[str, Tensor]]
"""One tensor [N, D], or named groups of them, each [N, ...]."""

_VECTORS = ""
"""Name of the concatenated vector groups beside image groups."""


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
        self.set_groups(groups)

    def set_groups(self, groups: Sequence[str]) -> None:
        """Set the names of the groups to read."""
        self.groups = tuple(groups)
        self.vector_groups = tuple(group for group in self.groups if group not in self.image_encoders)
        self._only_vectors = len(self.vector_groups) == len(self.groups)

    def read(self, obs: Observation) -> Observation:
        """Return the input of the model from observation groups: float32 [..., D], or with image groups a dict that
        also contains them; a tensor is returned as float32."""
        if isinstance(obs, Tensor):
            return obs.float()
        if self._only_vectors:
            return _join([obs[group] for group in self.groups])
        images = {group: obs[group] for group in self.image_encoders}
        vectors = [obs[group] for group in self.vector_groups]
        return {_VECTORS: _join(vectors) if vectors else self._no_vectors(images), **images}

    def _no_vectors(self, images: Mapping[str, Tensor]) -> Tensor:
        group, image = next(iter(images.items()))
        leading = image.shape[: image.dim() - len(cast(CNN, self.image_encoders[group]).shape)]
        return torch.zeros(*leading, 0, device=image.device)

    def forward(self, x: Observation, masks: Masks = None, state: HiddenState = None) -> Tensor:
        """Return the outputs [..., outputs] for what :meth:`read` returned.

        Without ``masks`` a memory advances its own state by one step; with them it runs sequences [T, n, ...] from
        ``state`` [L, n, H]. Masks in one tensor [T, M] are those of padded trajectories, see :class:`Memory`.
        """
        features = self.encode(x)
        if self.memory is not None and isinstance(masks, ResetMasks):
            features = self.memory.sequence(features, masks, state)
        elif self.memory is not None:
            features = self.memory(features, masks, state)
        return self.head(features)

    def forward_stateless(self, x: Observation) -> Tensor:
        """Return the outputs of one step without changing the memory's state."""
        features = self.encode(x)
        return self.head(features if self.memory is None else self.memory.step_stateless(features))

    def update_normalization(self, obs: Observation, sample_mask: Optional[Tensor] = None) -> None:
        """Merge a rollout [T, N, ...] into the running statistics."""
        if isinstance(self.normalizer, RunningNorm):
            x = self.read(obs)
            self.normalizer.update(x if isinstance(x, Tensor) else x[_VECTORS], sample_mask)

    def observation_bounds(self, obs: Mapping[str, Tensor]) -> Dict[str, Tuple[Tensor, Tensor]]:
        """Return the bounds of the normaliser, lowest and highest values [D], for each vector group of ``obs``."""
        if not isinstance(self.normalizer, RunningNorm):
            return {}
        sizes = [obs[group].shape[-1] for group in self.vector_groups]
        low, high = (bound.split(sizes) for bound in self.normalizer.bounds())
        return dict(zip(self.vector_groups, zip(low, high)))

    def encode(self, x: Observation) -> Tensor:
        """Return the input of the memory, or of the head if there is no memory, for what :meth:`read` returned."""
        if isinstance(x, Tensor):
            return self.normalizer(x)
        images = [encoder(x[group]) for group, encoder in self.image_encoders.items()]
        return torch.cat((self.normalizer(x[_VECTORS]), *images), dim=-1)


def _join(vectors: Sequence[Tensor]) -> Tensor:
    return (vectors[0] if len(vectors) == 1 else torch.cat(list(vectors), dim=-1)).float()
