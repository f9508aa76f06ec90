"""The style in which robots are to walk: a command source, and an observation, for a conditional discriminator."""

from __future__ import annotations

from typing import Any, Dict, Tuple

import torch
from torch import Tensor

from rsl_rl.config.mdp import Positive
from rsl_rl.tasks.mdp.commands import CommandSource
from rsl_rl.tasks.mdp.context import TaskContext
from rsl_rl.tasks.robot_state import RobotState


class Style(CommandSource):
    """Draw one of ``styles`` for each robot; the command is 1 for the style and 0 for each other one, [N, styles].

    The styles are those of an AMPConfig with the same names. All are equally likely, unless ``only`` names one.
    """

    def __init__(self, task: TaskContext, *, styles: Tuple[str, ...], resampling_time: Positive = 10.0, only: str = ""):
        if not styles or len(set(styles)) < len(styles):
            raise ValueError(f"styles={styles}; give different names, at least one")
        if only and only not in styles:
            raise ValueError(f"only={only}; the styles are {', '.join(styles)}")
        super().__init__(task, ((0.0, 1.0),) * len(styles), resampling_time)
        self.styles, self._only, self._generator = styles, only, task.generator

    def sample(self) -> Tensor:
        shape, device = (len(self._age),), self._age.device
        chosen = torch.randint(len(self.styles), shape, generator=self._generator, device=device)
        if self._only:
            chosen = torch.full_like(chosen, self.styles.index(self._only))
        return torch.nn.functional.one_hot(chosen, len(self.styles)).float()

    def describe(self) -> Dict[str, Any]:
        return {"styles": list(self.styles)}

    def readings(self, command: Tensor) -> Dict[str, Tensor]:
        return {"style": command}


def style(state: RobotState, *, name: str = "style") -> Tensor:
    """The command of the term ``name``: 1 for the style in which the robot is to walk, 0 for each other one."""
    return state.command_of(name)
