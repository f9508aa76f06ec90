"""What simulates: N worlds of one MuJoCo model, and reports of what happens to them.

Everything else of this package sees MuJoCo's worlds only through the class ``Worlds``.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any, Optional, Tuple

import numpy as np
import torch
from torch import Tensor


class Worlds(ABC):
    """N worlds of a ``mujoco.MjModel``; names of states and results are MjData's, names of fields are MjModel's.

    Tensors are on ``device``; states and results share memory with MuJoCo, and have the precision ``dtype``.
    """

    dtype: torch.dtype

    def __init__(self, model: Any, num: int, device: torch.device):
        self.model, self.num, self.device = model, num, device
        rows = np.repeat(np.arange(model.nv), model.M_rownnz)
        self._mass_rows = torch.from_numpy(rows).to(device)
        self._mass_columns = torch.from_numpy(model.M_colind[: len(rows)].astype(np.int64)).to(device)

    def mass_matrix(self, entries: Tensor) -> Tensor:
        """Return the joint-space inertias [W, nv, nv] of rows [W, nM] of the result ``M``: the entries of their lower
        triangles that are not zero."""
        matrix = entries.new_zeros(len(entries), self.model.nv, self.model.nv)
        matrix[:, self._mass_rows, self._mass_columns] = entries
        matrix[:, self._mass_columns, self._mass_rows] = entries
        return matrix

    @abstractmethod
    def state(self, name: str) -> Tensor:
        """Return a state or an input [N, ...], to read and to write."""

    @abstractmethod
    def result(self, name: str) -> Tensor:
        """Return a result [N, ...] of the last step or of ``forward``. A result that is requested for the first time
        has values after the next step or ``forward``."""

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


class Report:
    """Counts environments on their device, and warns of the first one.

    The numbers are copied to the host without waiting, so the warning comes at once on the CPU and at a later step on
    a GPU.
    """

    def __init__(self, message: str, device: torch.device):
        self._message, self._told = message, False
        self._numbers = torch.tensor([0, -1], device=device)  # how many so far, and the first one
        self._seen = torch.tensor([0, -1], pin_memory=device.type == "cuda")

    def add(self, mask: Tensor) -> None:
        """Count the environments in a mask [N]."""
        count = mask.sum()
        if not self._told:
            first = torch.where((self._numbers[0] == 0) & (count > 0), mask.int().argmax(), self._numbers[1])
            self._numbers[1] = first
        self._numbers[0] += count
        if not self._told:
            self._seen.copy_(self._numbers, non_blocking=True)
            self._warn()

    def _warn(self) -> None:
        count, first = self._seen.tolist()
        if count > 0 and first >= 0:
            self._told = True
            warnings.warn(self._message.format(first), stacklevel=6)

    @property
    def count(self) -> int:
        """How many environments so far; an environment counts each time. It waits for a GPU."""
        return int(self._numbers[0])
