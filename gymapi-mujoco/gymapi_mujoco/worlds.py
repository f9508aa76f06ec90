"""What simulates: N worlds of one MuJoCo model. Everything else of this package sees a world only through this class.

Tensors are on ``device``; states and results share memory with the engine, and have the precision ``dtype``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Optional, Tuple

import numpy as np
import torch
from torch import Tensor


class Worlds(ABC):
    """N worlds of a ``mujoco.MjModel``; names of states and results are MjData's, names of fields are MjModel's."""

    dtype: torch.dtype

    def __init__(self, model: Any, num: int, device: torch.device):
        self.model, self.num, self.device = model, num, device

    @abstractmethod
    def state(self, name: str) -> Tensor:
        """Return a state or an input [N, ...], to read and to write."""

    @abstractmethod
    def result(self, name: str) -> Tensor:
        """Return a result [N, ...] of the last step or of ``forward``; a new one has values after the next of them."""

    @abstractmethod
    def values(self, name: str) -> Tensor:
        """Return a field of the model to read, [N, ...], or [1, ...] where the worlds share it."""

    @abstractmethod
    def field(self, name: str) -> Tensor:
        """Return a field of the model with a row for each world, [N, ...], to write; ``opt.<name>`` is an option."""

    @abstractmethod
    def update_constants(self) -> None:
        """Recompute what MuJoCo derives from masses, inertias and the places of bodies, after they were written."""

    @abstractmethod
    def step(self, substeps: int) -> Optional[Tensor]:
        """Advance all worlds; return which ones diverged [N], or None if none did."""

    @abstractmethod
    def forward(self) -> None:
        """Compute poses, velocities and inertias of the present state."""

    @abstractmethod
    def ray(self, start: np.ndarray, direction: np.ndarray, worlds: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        """Cast rays [W, R, 3] in some worlds [W]; return distances, negative for nothing hit, and geoms, [W, R]."""

    @abstractmethod
    def get_data(self, world: int, data: Any) -> None:
        """Write the state of a world to a ``mujoco.MjData``, for pictures."""

    @abstractmethod
    def get_model(self, world: int) -> Any:
        """Return the ``mujoco.MjModel`` of a world, for pictures; it is valid until the next call."""


class MassMatrixLayout:
    """Where MuJoCo keeps the entries of the joint-space inertia: those of the lower triangle that are not zero."""

    def __init__(self, worlds: Worlds):
        model = worlds.model
        rows = np.repeat(np.arange(model.nv), model.M_rownnz)
        self._nv = model.nv
        self._rows = torch.from_numpy(rows).to(worlds.device)
        self._cols = torch.from_numpy(model.M_colind[: len(rows)].astype(np.int64)).to(worlds.device)

    def full(self, entries: Tensor) -> Tensor:
        """Return the matrices [N, nv, nv] of entries [N, nM], which are the result ``M``."""
        matrix = entries.new_zeros(len(entries), self._nv, self._nv)
        matrix[:, self._rows, self._cols] = entries
        matrix[:, self._cols, self._rows] = entries
        return matrix
