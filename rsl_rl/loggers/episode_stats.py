"""Statistics of episodes, summed on the device and read once per iteration."""

from __future__ import annotations

from collections import deque
from typing import Any, Deque, Dict, List, Mapping, Tuple

import torch
from torch import Tensor


class EpisodeStats:
    """Returns and lengths of finished episodes, and means of whatever the environment logs, over one iteration."""

    def __init__(self, num_envs: int, device: torch.device):
        self._device = device
        self._return = torch.zeros(num_envs, device=device)  # of the running episodes, [N]
        self._length = torch.zeros(num_envs, device=device)
        self._sums: Dict[str, Tensor] = {}  # name -> [2]: sum and count

    def record(self, reward: Tensor, done: Tensor, log: Mapping[str, Any]) -> None:
        """Take in one step: reward [N], done [N] bool and the environment's log, whose NaNs count for nothing."""
        self._return += reward
        self._length += 1
        self._add("return", self._return, done)
        self._add("length", self._length, done)
        self._return.masked_fill_(done, 0.0)
        self._length.masked_fill_(done, 0.0)
        for name, value in log.items():
            value = torch.as_tensor(value, dtype=torch.float32, device=self._device).reshape(-1)
            self._add(f"episode/{name}", value, ~torch.isnan(value))

    def _add(self, name: str, values: Tensor, mask: Tensor) -> None:
        pair = torch.stack((torch.where(mask, values, torch.zeros_like(values)).sum(), mask.sum().to(values.dtype)))
        self._sums[name] = self._sums[name] + pair if name in self._sums else pair

    def pop(self) -> Tuple[List[str], Tensor]:
        """Return names and a tensor [len(names), 2] of sums and counts on the device, and start the next iteration."""
        names, sums = list(self._sums), list(self._sums.values())
        self._sums = {}
        return names, torch.stack(sums) if sums else torch.zeros(0, 2, device=self._device)


class RecentEpisodes:
    """Mean return and length of the last episodes, at least ``window`` of them where there are as many."""

    def __init__(self, window: int = 100):
        self._window = window
        self._parts: Deque[Tuple[float, float, float]] = deque()  # count, sum of returns, sum of lengths

    def add(self, count: float, return_sum: float, length_sum: float) -> None:
        self._parts.append((count, return_sum, length_sum))
        while len(self._parts) > 1 and sum(part[0] for part in self._parts) - self._parts[0][0] >= self._window:
            self._parts.popleft()

    def means(self) -> Tuple[Any, Any]:
        """Return mean return and mean length [steps]; None before the first episode has ended."""
        count, return_sum, length_sum = (sum(part[i] for part in self._parts) for i in range(3))
        return (return_sum / count, length_sum / count) if count else (None, None)
