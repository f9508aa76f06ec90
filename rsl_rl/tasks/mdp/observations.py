"""Observation terms: functions of the robots' state, each [N, k], in SI units.

A term is a function and an entry of ``TERMS``, which says how the term is mirrored and whether a push or a new command
changes it.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from rsl_rl.config.mdp import ObservationTerm
from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.env.protocols import Mirror
from rsl_rl.robots import Robot
from rsl_rl.tasks.robot_state import RobotState
from rsl_rl.utils.column_selector import ColumnSelector
from rsl_rl.utils.registry import suggest
from rsl_rl.utils.uniform import Uniform


def base_lin_vel(state: RobotState) -> Tensor:
    """Velocity of the trunk in the base frame [m/s]."""
    return state.base_lin_vel


def base_ang_vel(state: RobotState) -> Tensor:
    """Angular velocity of the trunk in the base frame [rad/s]."""
    return state.base_ang_vel


def gravity(state: RobotState) -> Tensor:
    """Unit vector of gravity in the base frame."""
    return state.gravity


def command(state: RobotState) -> Tensor:
    """Commanded vx, vy [m/s] and yaw rate [rad/s] in the base frame."""
    return state.command


def joint_pos(state: RobotState) -> Tensor:
    """Joint angles less those of the default pose [rad]."""
    return state.joint_offset


def joint_vel(state: RobotState) -> Tensor:
    """Joint velocities [rad/s]."""
    return state.joint_vel


def action(state: RobotState) -> Tensor:
    """The last action."""
    return state.action


def foot_contact(state: RobotState) -> Tensor:
    """1 for each foot on the floor, else 0."""
    return state.foot_contact.to(state.action.dtype)


def foot_height(state: RobotState) -> Tensor:
    """Height of each foot's centre above the floor [m]."""
    return state.foot_pos[:, :, 2]


def air_time(state: RobotState) -> Tensor:
    """Time that each foot has been in the air [s]."""
    return state.air_time


def base_height(state: RobotState) -> Tensor:
    """Height of the trunk above the floor [m]."""
    return state.base_height.unsqueeze(1)


def friction(state: RobotState) -> Tensor:
    """Sliding friction of the floor."""
    return state.friction.unsqueeze(1)


def payload(state: RobotState) -> Tensor:
    """Mass added to the trunk [kg]."""
    return state.payload.unsqueeze(1)


class Term(NamedTuple):
    """A term, how it is mirrored, and its frame."""

    function: Callable[[RobotState], Tensor]
    mirror_type: str  # a key of mirrors_by_type
    frame: str
    changes_after_step: bool = False  # by pushes and new commands, which follow the final observation of a step


TERMS: Dict[str, Term] = {
    "base_lin_vel": Term(base_lin_vel, "vector", "base", changes_after_step=True),
    "base_ang_vel": Term(base_ang_vel, "axial_vector", "base", changes_after_step=True),
    "gravity": Term(gravity, "vector", "base"),
    "command": Term(command, "command", "base", changes_after_step=True),
    "joint_pos": Term(joint_pos, "joints", "joint"),
    "joint_vel": Term(joint_vel, "joints", "joint"),
    "action": Term(action, "joints", "joint"),
    "foot_contact": Term(foot_contact, "feet", "world"),
    "foot_height": Term(foot_height, "feet", "world"),
    "air_time": Term(air_time, "feet", "world"),
    "base_height": Term(base_height, "scalar", "world"),
    "friction": Term(friction, "scalar", "world"),
    "payload": Term(payload, "scalar", "base"),
}


def mirrors_by_type(robot: Robot) -> Dict[str, Tuple[Tuple[int, ...], Tuple[float, ...]]]:
    """Return index and sign of the mirror image for each mirror type."""
    return {
        "scalar": ((0,), (1.0,)),
        "vector": ((0, 1, 2), (1.0, -1.0, 1.0)),
        "axial_vector": ((0, 1, 2), (-1.0, 1.0, -1.0)),
        "command": ((0, 1, 2), (1.0, -1.0, -1.0)),
        "joints": (robot.mirrored_joints, robot.mirror_signs),
        "feet": (robot.mirrored_feet, (1.0,) * len(robot.mirrored_feet)),
    }


class ObservationGroup:
    """Named terms, scaled, with noise, concatenated: [N, D]. An :class:`ObservationTable` computes them."""

    def __init__(self, terms: Mapping[str, ObservationTerm], state: RobotState, generator: torch.Generator):
        if not terms:
            raise ValueError(f"an observation group has no terms; name some of {', '.join(sorted(TERMS))}")
        unknown = [name for name in terms if name not in TERMS]
        if unknown:
            raise ValueError(
                f"unknown observation term '{unknown[0]}'; known: {', '.join(sorted(TERMS))}."
                f"{suggest(unknown[0], TERMS)}"
            )
        self.terms = dict(terms)
        self.sizes = [TERMS[name].function(state).shape[1] for name in terms]
        self._device = state.action.device
        widths = [term.noise * term.scale for term, size in zip(terms.values(), self.sizes) for _ in range(size)]
        bounds = [(-width, width) for width in widths]
        self._draw = Uniform(len(state.action), bounds, generator) if any(widths) else None
        self._noise: Optional[Tensor] = None  # [N, D]

    def draw_noise(self) -> None:
        """Draw the noise of all observations until the next call; there is no noise before the first call."""
        if self._draw is not None:
            self._noise = self._draw()

    def with_noise(self, x: Tensor) -> Tensor:
        """Return observations [N, D] with the last noise that was drawn, contiguous."""
        return x.contiguous() if self._noise is None else x + self._noise

    def split(self, x: Tensor) -> Dict[str, List[float]]:
        """Split the observation of one robot [D] into its terms."""
        return {name: part.tolist() for name, part in zip(self.terms, x.split(self.sizes))}

    def describe(self) -> List[Dict[str, Any]]:
        """Return name, size, scale and frame of each term; terms of the frame "joint" have one number per joint."""
        return [
            {"name": name, "size": size, "scale": term.scale, "frame": TERMS[name].frame}
            for (name, term), size in zip(self.terms.items(), self.sizes)
        ]

    def mirror(self, robot: Robot) -> Mirror:
        """Return the mirror image of the group."""
        index, sign, start = [], [], 0
        for name, size in zip(self.terms, self.sizes):
            term_index, term_sign = mirrors_by_type(robot)[TERMS[name].mirror_type]
            index += [start + i for i in term_index]
            sign += term_sign
            start += size
        return torch.tensor(index, device=self._device), torch.tensor(sign, device=self._device)


def observation_groups(
    cfg: LeggedRobotConfig, state: RobotState, generator: torch.Generator
) -> Dict[str, ObservationGroup]:
    """Return the groups of a task by name: "policy", "critic" if it has terms, and further groups."""
    terms = {"policy": cfg.policy_observations}
    if cfg.critic_observations:
        terms["critic"] = cfg.critic_observations
    terms.update(cfg.more_observations)
    return {name: ObservationGroup(own, state, generator) for name, own in terms.items()}


class ObservationTable:
    """Compute each term of several groups once, scaled. A group selects its columns and adds its noise."""

    def __init__(self, groups: Mapping[str, ObservationGroup], state: RobotState):
        self._groups = dict(groups)
        self._slices: Dict[Tuple[str, float], slice] = {}  # by name and scale
        width = 0
        # The largest group first, so that its columns are contiguous.
        widest_first = sorted(groups.values(), key=lambda group: sum(group.sizes), reverse=True)
        for group in widest_first:
            for (name, term), size in zip(group.terms.items(), group.sizes):
                if (name, term.scale) not in self._slices:
                    self._slices[name, term.scale] = slice(width, width + size)
                    width += size
        self._table = torch.empty(0)  # [N, all columns], after the first call
        columns = {key: range(part.start, part.stop) for key, part in self._slices.items()}
        scales = [scale for (_, scale), own in columns.items() for _ in own]
        self._scale = torch.tensor(scales, device=state.action.device)
        self._pick = {
            group_name: ColumnSelector(
                [i for name, term in group.terms.items() for i in columns[name, term.scale]], self._scale.device
            )
            for group_name, group in groups.items()
        }

    def draw_noise(self) -> None:
        """Draw the noise for the final observation of a control step and for the next observation."""
        for group in self._groups.values():
            group.draw_noise()

    def __call__(self, state: RobotState) -> Dict[str, Tensor]:
        """Return the observations of each group, [N, D].

        Groups without noise may share memory, so do not write to them.
        """
        terms = [TERMS[name].function(state).contiguous() for name, _ in self._slices]  # faster to concatenate on a CPU
        self._table = torch.cat(terms, dim=1).mul_(self._scale)
        return self._observations()

    def update(self, state: RobotState) -> Dict[str, Tensor]:
        """Return what a call would return, if only pushes and new commands have occurred since the last call."""
        self._table = self._table.clone()  # groups of the last call may be views of it
        for (name, scale), columns in self._slices.items():
            if TERMS[name].changes_after_step:
                torch.mul(TERMS[name].function(state), scale, out=self._table[:, columns])
        return self._observations()

    def _observations(self) -> Dict[str, Tensor]:
        return {name: group.with_noise(self._pick[name](self._table)) for name, group in self._groups.items()}
