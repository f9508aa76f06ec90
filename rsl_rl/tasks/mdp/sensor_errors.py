"""Errors of sensors that are constant during an episode: a bias of each number, and a delay of each term."""

from __future__ import annotations

from typing import Dict, List, Mapping, Optional, Sequence

import torch
from torch import Tensor

from rsl_rl.config.mdp import ObservationTerm
from rsl_rl.utils.uniform import Uniform


class SensorErrors:
    """Bias and delay of the terms of a group, for N robots and the D numbers of one step.

    ``apply`` may be called several times in a control step; ``end_step`` ends it.
    """

    def __init__(
        self, terms: Sequence[ObservationTerm], sizes: Sequence[int], num_envs: int, generator: torch.Generator
    ):
        widths = [term.bias * term.scale for term, size in zip(terms, sizes) for _ in range(size)]
        largest = max((term.delay[1] for term in terms), default=0)
        self.is_needed = any(widths) or largest > 0
        if not self.is_needed:
            return
        device = generator.device
        delays = [(term.delay[0], term.delay[1] + 1) for term in terms]
        self._draw = Uniform(num_envs, [*((-width, width) for width in widths), *delays], generator)
        self._highest = torch.tensor([high - 1.0 for _, high in delays], device=device)
        self._term_of = torch.tensor([i for i, size in enumerate(sizes) for _ in range(size)], device=device)  # [D]
        self._bias = torch.zeros(num_envs, len(widths), device=device)
        self._delay = torch.zeros(num_envs, len(delays), dtype=torch.long, device=device)
        self._past = torch.zeros(largest + 1 if largest else 0, num_envs, len(widths), device=device)  # newest first
        self._present = self._bias

    def apply(self, x: Tensor, started: Optional[Tensor], same_step: bool) -> Tensor:
        """Return the values [N, D] that the sensors report for x; ``started`` marks robots at the start of an episode
        [N]. With ``same_step`` the present step has ended before."""
        if started is not None:
            self._start(started)
        x = x + self._bias
        if not len(self._past):
            return x
        if started is not None:
            self._past = torch.where(started.view(1, -1, 1), x, self._past)
        self._present = x
        times = torch.cat((x.unsqueeze(0), self._past[1:] if same_step else self._past[:-1]))
        return times.gather(0, self._delay[:, self._term_of].unsqueeze(0)).squeeze(0)

    def _start(self, started: Tensor) -> None:
        """Draw the errors of the robots marked in started [N]."""
        bias, delay = self._draw().split([self._bias.shape[1], self._delay.shape[1]], dim=1)
        rows = started.unsqueeze(1)
        self._bias = torch.where(rows, bias, self._bias)
        self._delay = torch.where(rows, torch.minimum(delay.floor(), self._highest).long(), self._delay)

    def end_step(self) -> None:
        """Store the values of the step for later ones."""
        if self.is_needed and len(self._past):
            self._past = torch.cat((self._present.unsqueeze(0), self._past[:-1]))

    def state_dict(self) -> Dict[str, Tensor]:
        """Return what the next steps depend on."""
        names: List[str] = ["bias", "delay", "past"] if self.is_needed else []
        return {name: getattr(self, f"_{name}").clone() for name in names}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what :meth:`state_dict` returned."""
        for name, value in state.items():
            getattr(self, f"_{name}").copy_(value)
