"""Histories of observations."""

from __future__ import annotations

from typing import List, Optional, Sequence, Union

import torch
from torch import Tensor


class History:
    """Stack the last control steps of each term of a group: [N, sum of sizes * steps].

    Term follows term; within a term the oldest step is the first. All that is remembered is the observation before.
    """

    def __init__(self, sizes: Sequence[int], steps: Sequence[int], device: Union[str, torch.device]):
        self._is_needed = max(steps, default=1) > 1
        total, new, old = sum(size * count for size, count in zip(sizes, steps)), 0, 0
        following: List[int] = []  # of the columns of the observation before and of the new values
        replacing: List[int] = []
        repeating: List[int] = []  # of the columns of the new values
        for size, count in zip(sizes, steps):
            newest = [total + new + i for i in range(size)]
            following += [*range(old + size, old + size * count), *newest]
            replacing += [*range(old, old + size * (count - 1)), *newest]
            repeating += [new + i for i in range(size)] * count
            new, old = new + size, old + size * count
        indices = (following, replacing, repeating)
        self._following, self._replacing, self._repeating = (torch.tensor(x, device=device) for x in indices)

    def __call__(self, x: Tensor, previous: Optional[Tensor], started: Optional[Tensor], same_step: bool) -> Tensor:
        """Return the observation [N, D] that ends with the values x [N, sum of sizes].

        ``previous`` [N, D] is the observation of the last step, or with ``same_step`` of this step, whose newest values
        are replaced. Without it, and for the robots marked in ``started`` [N], all steps are x.
        """
        if not self._is_needed:
            return x
        if previous is None:
            return x.index_select(1, self._repeating)
        index = self._replacing if same_step else self._following
        stacked = torch.cat((previous, x), dim=1).index_select(1, index)
        if started is None:
            return stacked
        return torch.where(started.unsqueeze(1), x.index_select(1, self._repeating), stacked)
