"""The joint-space inertia of the worlds as full matrices; MuJoCo keeps the nonzero entries of the lower triangle."""

# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gymapi_mujoco.worlds import Worlds


class MassMatrixEntries:
    """Where the entries of MuJoCo's ``M`` are in the full matrix."""

    def __init__(self, worlds: Worlds):
        model = worlds.model
        rows = np.repeat(np.arange(model.nv), model.M_rownnz)
        self._nv = model.nv
        self._rows = torch.from_numpy(rows).to(worlds.device)
        self._cols = torch.from_numpy(model.M_colind[: len(rows)].astype(np.int64)).to(worlds.device)

    def full(self, entries: Tensor) -> Tensor:
        """Return the matrices [N, nv, nv] of entries [N, nM]."""
        matrix = entries.new_zeros(len(entries), self._nv, self._nv)
        matrix[:, self._rows, self._cols] = entries
        matrix[:, self._cols, self._rows] = entries
        return matrix
