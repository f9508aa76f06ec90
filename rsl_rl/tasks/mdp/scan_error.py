"""Errors of the height scan, as those of a robot's state estimate and map."""

from __future__ import annotations

from typing import Dict, Mapping

import torch
from torch import Tensor

from rsl_rl.tasks.mdp.context import TaskContext
from rsl_rl.tasks.robot_state import RobotState
from rsl_rl.utils.tensors import none_on_cpu
from rsl_rl.utils.uniform import Uniform


class ScanError:
    """Draw the error of each robot's height scan at the start of an episode, an event of the mode reset.

    The scan is shifted by at most ``shift`` [m] along x and along y of the base, and ``offset`` [m] at most is added to
    its heights. Each of the three drifts with a constant rate of at most ``drift`` [m/s].
    """

    def __init__(self, task: TaskContext, *, shift: float = 0.03, offset: float = 0.03, drift: float = 0.003):
        self._error = task.state.scan_error  # [N, 3]
        self._rate = torch.zeros_like(self._error)  # [N, 3] in one control step [m]
        rate = drift * task.control_dt
        bounds = [(-shift, shift)] * 2 + [(-offset, offset)] + [(-rate, rate)] * 3
        self._draw = Uniform(task.num_envs, bounds, task.generator)
        task.observers.append(self._advance)

    def __call__(self, mask: Tensor) -> None:
        error, rate = self._draw().split(3, dim=1)
        if none_on_cpu(mask):
            return
        column = mask.unsqueeze(1)
        torch.where(column, error, self._error, out=self._error)
        torch.where(column, rate, self._rate, out=self._rate)

    def _advance(self, state: RobotState, done: Tensor) -> None:
        self._error += self._rate

    def state_dict(self) -> Dict[str, Tensor]:
        """Return the errors and their rates."""
        return {"error": self._error.clone(), "rate": self._rate.clone()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what :meth:`state_dict` returned."""
        self._error.copy_(state["error"])
        self._rate.copy_(state["rate"])
