"""Recurrent states for mirrored observations."""

from __future__ import annotations

from typing import Callable, Tuple

import torch
from torch import Tensor

from rsl_rl.modules.memory import reset_states
from rsl_rl.modules.model import Model
from rsl_rl.storage.batching import chunk_states
from rsl_rl.storage.rollout_storage import RolloutStorage
from rsl_rl.utils.trajectories import HiddenState, as_states


class MirroredMemory:
    """The recurrent states of a network for the mirror images of all observations.

    They are computed at the end of each rollout, with the weights of the rollout. ``states`` are those after the last
    rollout, each [L, N, H]; () stands for zeros, and is used for a network without memory. If the real state of an
    environment is zero at the start of a rollout, the mirrored one is set to zero too; this covers resets between
    rollouts. Steps of a discarded rollout are missing.
    """

    def __init__(self, model: Model, mirror_group: Callable[[str, Tensor], Tensor]):
        self._model, self._mirror_group = model, mirror_group
        self.states: Tuple[Tensor, ...] = ()
        self._saved: Tuple[Tensor, ...] = ()  # where chunks begin, each [K, L, N, H], allocated once

    def before_chunks(self, envs: Tensor) -> Tuple[Tensor, ...]:
        """Return the states [L, K*n, H] before the chunks of the environments ``envs`` [n]."""
        return chunk_states(self._saved, envs)

    @torch.no_grad()
    def run(self, storage: RolloutStorage, real: Tuple[Tensor, ...]) -> None:
        """Run the memory over a full rollout; ``real`` are the states [K, L, N, H] that the storage has saved."""
        model, memory = self._model, self._model.memory
        if memory is None:
            return
        zeros, begins = memory.zero_states(storage.num_envs), storage.plan.begins
        state: HiddenState = self._without_reset(self.states or zeros, zeros, real)
        if not self._saved or self._saved[0].shape[2] != storage.num_envs:
            self._saved = tuple(s.new_zeros(len(begins), *s.shape) for s in zeros)
        memory.cache_weights()
        for t, dones in enumerate(storage.columns["dones"]):
            for chunk in (chunk for chunk, begin in enumerate(begins) if begin == t):
                for place, value in zip(self._saved, as_states(state)):
                    place[chunk].copy_(value)
            groups = {name: self._mirror_group(name, storage.groups[name][t]) for name in model.groups}
            _, state = memory.advance(model.encode(model.read(groups)), state)
            state = reset_states(state, dones)
        memory.clear_cache()
        self.states = as_states(state)

    @staticmethod
    def _without_reset(
        states: Tuple[Tensor, ...], zeros: Tuple[Tensor, ...], real: Tuple[Tensor, ...]
    ) -> Tuple[Tensor, ...]:
        """Return the states with zeros where the real ones at the start of the rollout are zero."""
        if states[0].shape != zeros[0].shape:  # of a checkpoint with another number of environments
            return zeros
        no_past = torch.ones_like(states[0][0, :, 0], dtype=torch.bool)  # [N]
        for saved in real:
            no_past = no_past & (saved[0] == 0).all(dim=2).all(dim=0)
        return as_states(reset_states(states, no_past))
