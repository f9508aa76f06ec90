"""Base class of the events that randomise one parameter of the robots."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Dict, List, Mapping, Sequence, Union

import torch
from torch import Tensor

from rsl_rl.config.mdp import Range
from rsl_rl.config.terms import ScheduleConfig
from rsl_rl.sim.base import Sim
from rsl_rl.sim.parameters import PARAMETERS
from rsl_rl.tasks.mdp.context import TaskContext
from rsl_rl.tasks.mdp.schedules import Schedule
from rsl_rl.utils.by_name import values_by_name
from rsl_rl.utils.tensors import none_on_cpu
from rsl_rl.utils.uniform import Uniform

Ranges = Union[Range, Mapping[str, Range]]


class RandomParameter:
    """Base class: draw a parameter and set it."""

    parameter: ClassVar[str]
    """Its name in ``state.parameters``."""
    of_engine: ClassVar[str] = ""
    """The parameter of the engine that it sets, see rsl_rl.sim.parameters; empty for none."""
    size: ClassVar[str] = ""
    """Size of a parameter that is not of the engine, in the words of rsl_rl.sim.parameters."""
    low: ClassVar[float] = -math.inf
    """Lower bound of ``range``."""

    def __init__(
        self,
        task: TaskContext,
        *,
        range: Ranges,
        same: bool = False,
        schedule: Union[Mapping[str, Any], ScheduleConfig, None] = None,
    ):
        self._task, self._same = task, same
        where = f"the randomisation of {self.parameter}"
        if self.of_engine:
            task.sim.require_parameter(self.of_engine, where)
        names, neutral = self.names(task.sim), self.nominal_of(task.sim)
        pairs = values_by_name(range, names, where, others=None)
        self.bounds = [
            checked_range(pair, self.low, where) if pair is not None else (x, x) for pair, x in zip(pairs, neutral)
        ]
        self._neutral = torch.tensor(neutral, device=task.device)  # [k]
        bounds = [(0.0, 1.0)] if same else self._drawn_bounds()
        self._draw = Uniform(task.num_envs, bounds, task.generator)
        low, high = torch.tensor(self._drawn_bounds(), device=task.device).unbind(dim=1)
        self._low, self._width = low, high - low  # [k]
        self._schedule = Schedule(task, schedule, f"{where}: schedule") if schedule is not None else None
        self.prepare(task)
        self._set(self._neutral.expand(task.num_envs, -1).clone())

    @classmethod
    def names(cls, sim: Sim) -> Sequence[str]:
        """Return the names of the parameter's numbers."""
        size = PARAMETERS[cls.of_engine].size if cls.of_engine else cls.size
        own = {"": (cls.parameter,), "joints": sim.joint_names, "bodies": sim.body_names, "vector": ("x", "y", "z")}
        return own[size]

    @classmethod
    def nominal_of(cls, sim: Sim) -> List[float]:
        """Return the numbers that change nothing."""
        if cls.of_engine:
            return sim.nominal_parameter(cls.of_engine).reshape(-1).tolist()
        return [0.0] * len(cls.names(sim))

    def _drawn_bounds(self) -> List[Range]:
        return self.bounds

    def prepare(self, task: TaskContext) -> None:
        """Do what the largest value needs."""

    def apply(self, value: Tensor) -> None:
        """Give the values [N, k] of all robots to the engine."""
        if self.of_engine:
            shape = self._task.sim.shape_of_parameter(self.of_engine)
            self._task.sim.set_parameters({self.of_engine: value.view(-1, *shape)})

    def __call__(self, mask: Tensor) -> None:
        drawn = self._draw()
        if none_on_cpu(mask):
            return
        if self._same:
            drawn = self._low + drawn * self._width
        if self._schedule is not None:
            drawn = self._neutral + self._schedule.factor * (drawn - self._neutral)
        value = torch.where(mask.unsqueeze(1), self.rounded(drawn), self._task.state.parameters[self.parameter])
        self._set(value)
        self.apply(value)

    def rounded(self, drawn: Tensor) -> Tensor:
        """Return numbers [N, k] that the parameter can have."""
        return drawn

    def _set(self, value: Tensor) -> None:
        self._task.state.set_parameter(self.parameter, value)

    def log(self) -> Dict[str, Tensor]:
        """Return mean, lowest and highest value of all robots."""
        value = self._task.state.parameters[self.parameter]
        name = f"Randomization/{self.parameter}"
        log = {f"{name}_mean": value.mean(), f"{name}_low": value.amin(), f"{name}_high": value.amax()}
        return log if self._schedule is None else {**log, f"{name}_schedule": self._schedule.factor}

    def state_dict(self) -> Dict[str, Any]:
        """Return the state of the schedule."""
        return {} if self._schedule is None else self._schedule.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned."""
        if self._schedule is not None and state:
            self._schedule.load_state_dict(state)


def checked_range(pair: Any, least: float, where: str) -> Range:
    """Return a range; anything but two numbers in order is a ValueError."""
    numbers = isinstance(pair, (tuple, list)) and len(pair) == 2 and all(isinstance(x, (int, float)) for x in pair)
    if not numbers or not least <= pair[0] <= pair[1]:
        limit = f", the lower from {least:g}" if least > -math.inf else ""
        raise ValueError(f"{where}: range={pair}; give two numbers, the lower one first{limit}")
    return float(pair[0]), float(pair[1])
