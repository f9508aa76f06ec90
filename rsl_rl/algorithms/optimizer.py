"""PyTorch's Adam for trainings without acceleration; with it, acceleration/flat_adam.py takes its place."""

from __future__ import annotations

from typing import Sequence

import torch
from torch import Tensor, nn


class GuardedAdam(torch.optim.Adam):
    """Adam that clips the gradient norm of each of ``groups`` and skips steps whose gradients are not finite.

    It has the interface of ``acceleration.FlatAdam``, and synchronises with the device at each step.
    """

    def __init__(
        self,
        parameters: Sequence[nn.Parameter],
        groups: Sequence[Sequence[nn.Parameter]],
        learning_rate: Tensor,
        max_grad_norm: float,
    ):
        super().__init__(list(parameters), lr=float(learning_rate))
        self._groups, self._learning_rate, self.max_grad_norm = groups, learning_rate, max_grad_norm

    @property
    def gradients(self) -> Sequence[Tensor]:
        """The gradients of the parameters that have one."""
        return [parameter.grad for group in self._groups for parameter in group if parameter.grad is not None]

    def attach(self) -> None:
        """Do nothing: parameters may be replaced at any time."""

    def step_where_finite(self, usable: Tensor) -> Tensor:
        """Take a step if ``usable``, a bool, and every gradient is finite; return whether it was taken."""
        norms = [nn.utils.clip_grad_norm_(group, self.max_grad_norm) for group in self._groups]
        taken = torch.stack([norm.isfinite() for norm in norms]).all().logical_and(usable)
        if taken:  # sync
            self.param_groups[0]["lr"] = float(self._learning_rate)  # sync
            self.step()
        return taken

    def load_state_dict(self, state_dict: dict) -> None:
        super().load_state_dict(state_dict)
        self._learning_rate.fill_(float(self.param_groups[0]["lr"]))
