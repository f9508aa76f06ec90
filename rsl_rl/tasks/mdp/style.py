"""The style in which robots are to walk, and the clock of their feet: command sources, observations and rewards."""

from __future__ import annotations

import math
from typing import Any, Dict, Mapping, Tuple

import torch
from torch import Tensor

from rsl_rl.config.mdp import Positive
from rsl_rl.motion.clip import Clip
from rsl_rl.motion.library import find_clip
from rsl_rl.tasks.mdp.commands import Clock, CommandSource
from rsl_rl.tasks.mdp.context import TaskContext
from rsl_rl.tasks.mdp.rewards import track_lin_vel, track_yaw_rate
from rsl_rl.tasks.robot_state import RobotState
from rsl_rl.utils.registry import import_object

_RHYTHM = "rsl_rl.motion.rhythm:rhythm_of"  # by its name: it needs packages that tasks without clips do not need


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


class FootClock(Clock):
    """A clock for each foot in the rhythm of the style that the robot is told; the command is the sines and then the
    cosines of the clocks [N, 2 F], see :func:`clock_of_feet`.

    ``clips`` names a clip for each style, a loop of one cycle in which each foot lands once. The style is the command
    of the term ``style``, a :class:`Style` that comes before this one.
    """

    def __init__(self, task: TaskContext, *, clips: Mapping[str, str], style: str = "style"):
        super().__init__(task, 2 * len(task.sim.foot_names))
        self._robot, self._state, self._style = task.robot, task.state, style
        names = list(task.cfg.commands.all_terms)
        if style not in task.state.commands:
            raise ValueError(f"style={style}; name a command term that comes before this one: {', '.join(names)}")
        styles = task.cfg.commands.all_terms[style].params.get("styles", ())
        if list(clips) != list(styles):
            raise ValueError(f"clips has {', '.join(clips)}; give a clip for each style, in order: {', '.join(styles)}")
        self.rhythms = [import_object(_RHYTHM)(find_clip(clip, task.cfg.robot), task.robot) for clip in clips.values()]
        rows = torch.tensor([one.touchdown + one.duty for one in self.rhythms], device=task.device)
        self._touchdown, self._duty = rows.unflatten(1, (2, -1)).unbind(1)  # [styles, F] each
        self._periods = torch.tensor([one.period for one in self.rhythms], device=task.device)  # [styles] s
        self._dt, self._dead_zone = task.control_dt, task.cfg.commands.dead_zone

    def at(self, phase: Tensor) -> Tensor:
        style = self._state.commands[self._style]
        return clock_of_feet(phase.unsqueeze(1), style @ self._touchdown, style @ self._duty)

    def cycles_per_step(self) -> Tensor:
        return self._dt / (self._state.commands[self._style] @ self._periods)

    def of_clip(self, clip: Clip, times: Tensor) -> Tensor:
        """Return the clocks of a clip at times [T] [s], [T, 2 F]; in a clip that does not loop they are 0."""
        if not clip.loop:
            return torch.zeros(len(times), len(self.ranges))
        own = import_object(_RHYTHM)(clip, self._robot)
        return clock_of_feet(times.unsqueeze(1) / own.period, torch.tensor(own.touchdown), torch.tensor(own.duty))

    def describe(self) -> Dict[str, Any]:
        rhythms = [{"period": one.period, "touchdown": one.touchdown, "duty": one.duty} for one in self.rhythms]
        return {"rhythms": rhythms, "dead_zone": self._dead_zone}

    def readings(self, command: Tensor) -> Dict[str, Tensor]:
        return {"foot_clock": command}


def clock_of_feet(phase: Tensor, touchdown: Tensor, duty: Tensor) -> Tensor:
    """Return sines and then cosines of the clocks of the feet [..., 2 F], for phases in cycles [..., 1].

    The clock of a foot runs from 0 to half a turn while the foot is to be on the floor, and on to a whole turn while it
    is to be in the air, so that its sine is positive on the floor, whatever its duty.
    """
    since = (phase - touchdown) % 1.0
    turns = torch.where(since < duty, 0.5 * since / duty, 0.5 + 0.5 * (since - duty) / (1 - duty))
    angle = 2 * math.pi * turns
    return torch.cat((angle.sin(), angle.cos()), dim=-1)


def style(state: RobotState, *, name: str = "style") -> Tensor:
    """The command of the term ``name``: 1 for the style in which the robot is to walk, 0 for each other one."""
    return state.command_of(name)


def foot_clock(state: RobotState, *, name: str = "foot_clock") -> Tensor:
    """Sines and then cosines of the clocks of the feet, the command of the term ``name``; 0 while no motion is
    commanded."""
    return state.command_of(name) * state.commands_motion().unsqueeze(1)


def foot_rhythm(state: RobotState, *, name: str = "foot_clock") -> Tensor:
    """Share of the feet that are on the floor, or in the air, as the clocks of the term ``name`` ask; 0 while no motion
    is commanded."""
    return _share_in_rhythm(state, name) * state.moving


def lin_vel_in_rhythm(state: RobotState, *, tracking_sigma: Positive = 0.25, name: str = "foot_clock") -> Tensor:
    """The reward track_lin_vel times the square of the share of the feet that follow their clocks.

    It is a product because with a sum of both, policies followed either the velocity or the clocks.
    """
    return track_lin_vel(state, tracking_sigma=tracking_sigma) * _factor(state, name)


def yaw_rate_in_rhythm(state: RobotState, *, tracking_sigma: Positive = 0.25, name: str = "foot_clock") -> Tensor:
    """The reward track_yaw_rate times the square of the share of the feet that follow their clocks."""
    return track_yaw_rate(state, tracking_sigma=tracking_sigma) * _factor(state, name)


def _factor(state: RobotState, name: str) -> Tensor:
    """Return the square of the share of the feet in rhythm, 1 while no motion is commanded."""
    return torch.where(state.moving > 0, _share_in_rhythm(state, name), 1.0).square()


def _share_in_rhythm(state: RobotState, name: str) -> Tensor:
    sines = state.command_of(name).chunk(2, dim=1)[0]
    return (state.foot_contact == (sines > 0)).float().mean(dim=1)
