"""Episode statistics, summed on the device and read once per iteration."""

from __future__ import annotations

from collections import deque
from typing import Any, Deque, Dict, List, Mapping, Tuple

import torch
from torch import Tensor

from rsl_rl.utils.tensors import as_numbers


class EpisodeStats:
    """Returns and lengths of finished episodes, and means of the environment's log, over one iteration."""

    def __init__(self, num_envs: int, device: torch.device):
        self._device = device
        self._return = torch.zeros(num_envs, device=device)  # of the running episodes, [N]
        self._length = torch.zeros(num_envs, device=device)
        self._left_out: Dict[str, str] = {}  # name in the log -> warning; empty once it is shown
        self._sums: Dict[Tuple[str, ...], Tensor] = {}  # names -> [len(names), 2]: sum and count of each

    def record(self, reward: Tensor, done: Tensor, valid: Tensor, extras: Mapping[str, Any]) -> None:
        """Add one step: reward [N], done [N] bool, and the environment's log, ``extras["log"]`` or ``["episode"]``.

        Values of the log that are not finite are ignored, and so are episodes that end in a step that is not valid [N].
        """
        log: Mapping[str, Any] = {}
        for name in ("episode", "log"):  # the second one, if it says something
            found = extras.get(name)
            if found is not None and not isinstance(found, Mapping):
                self.note_left_out(f"extras['{name}']", found)
            elif found:
                log = found
        self._return += reward
        self._length += 1
        finished = torch.where(done & valid, torch.stack((self._return, self._length)), torch.nan)
        self._add({"return": finished[0], "length": finished[1]})
        self._return.masked_fill_(done, 0.0)
        self._length.masked_fill_(done, 0.0)
        self._add({f"episode/{name}": value for name, value in log.items()})

    def _add(self, log: Mapping[str, Any]) -> None:
        """Add values of equal size together, so that more terms need no more operations."""
        by_size: Dict[int, Dict[str, Tensor]] = {}
        for name, value in log.items():
            usual = isinstance(value, Tensor) and value.dtype == torch.float32 and value.device == self._device
            usual = usual and value.layout == torch.strided
            numbers = value.reshape(-1) if usual else as_numbers(value, self._device)
            if numbers is None:
                self.note_left_out(name, value)
            else:
                by_size.setdefault(len(numbers), {})[name] = numbers
        for values in by_size.values():
            names, block = tuple(values), torch.stack(list(values.values()))  # [len(names), size]
            finite = torch.isfinite(block)
            sums = torch.stack((block.masked_fill_(~finite, 0.0).sum(dim=1), finite.sum(dim=1)), dim=1)
            self._sums[names] = self._sums[names] + sums if names in self._sums else sums

    def note_left_out(self, name: str, value: Any) -> None:
        """Note an entry of the log that is no number and so is left out."""
        if name not in self._left_out:
            kind = type(value).__name__
            self._left_out[name] = (
                f"warning: {name} is a {kind} and is left out of the log; give numbers or tensors of them"
            )

    def pop_warnings(self) -> List[str]:
        """Return a line for each entry that was left out of the log; each line is returned once."""
        lines = list(filter(None, self._left_out.values()))
        self._left_out = dict.fromkeys(self._left_out, "")
        return lines

    def discard_episodes(self, mask: Tensor) -> None:
        """Discard the current episodes of the environments marked in mask [N]."""
        self._return.masked_fill_(mask, 0.0)
        self._length.masked_fill_(mask, 0.0)

    def state_dict(self) -> Dict[str, Tensor]:
        """Return returns and lengths of the current episodes."""
        return {"return": self._return.clone(), "length": self._length.clone()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what :meth:`state_dict` returned, for the same number of environments."""
        self._return.copy_(state["return"])
        self._length.copy_(state["length"])

    def pop(self) -> Tuple[List[str], Tensor]:
        """Return names and a tensor [len(names), 2] of sums and counts on the device, and start the next iteration."""
        totals: Dict[str, Tensor] = {}
        for names, sums in self._sums.items():  # the terms of the log may differ between steps
            for name, pair in zip(names, sums):
                totals[name] = totals[name] + pair if name in totals else pair
        self._sums = {}
        return list(totals), torch.stack(list(totals.values())) if totals else torch.zeros(0, 2, device=self._device)


class RecentEpisodes:
    """Mean return and length of the last episodes, of at least ``window`` if there are that many."""

    def __init__(self, window: int = 100):
        self._window = window
        self._parts: Deque[Tuple[float, float, float]] = deque()  # count, sum of returns, sum of lengths

    def add(self, count: float, return_sum: float, length_sum: float) -> None:
        if not count:
            return
        self._parts.append((count, return_sum, length_sum))
        while len(self._parts) > 1 and sum(part[0] for part in self._parts) - self._parts[0][0] >= self._window:
            self._parts.popleft()

    def state_dict(self) -> List[List[float]]:
        """Return the stored sums, as plain numbers."""
        return [list(part) for part in self._parts]

    def load_state_dict(self, state: List[List[float]]) -> None:
        """Restore what :meth:`state_dict` returned."""
        self._parts = deque((count, return_sum, length_sum) for count, return_sum, length_sum in state)

    def means(self) -> Tuple[Any, Any]:
        """Return mean return and mean length [steps]; None before the first episode has ended."""
        count, return_sum, length_sum = (sum(part[i] for part in self._parts) for i in range(3))
        return (return_sum / count, length_sum / count) if count else (None, None)
