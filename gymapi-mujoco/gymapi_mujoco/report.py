"""Counts of environments to which something happened, without waiting for a GPU."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor


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
